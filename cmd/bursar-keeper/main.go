// Command bursar-keeper watches over one engine that an agent has started. Only agents start it.
package main

import (
	"os"

	"github.com/bursar/bursar/agent/keeper"
)

func main() { os.Exit(keeper.Main()) }
