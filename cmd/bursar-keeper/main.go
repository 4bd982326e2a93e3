// Command bursar-keeper stands over one engine that an agent has started. Nobody else starts it.
package main

import (
	"os"

	"github.com/bursar/bursar/agent/keeper"
)

func main() { os.Exit(keeper.Main()) }
