// Command bursar-keeper watches over one engine that an agent has started. Only agents start it. In
// its second mode, in which a keeper starts it, it looks whether the engine is ready.
package main

import (
	"os"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/look"
	"github.com/bursar/bursar/internal/hold"
)

func main() {
	hold.Wait() // the arguments are those of an engine's command then
	if code, asked := keeper.Explain(os.Args); asked {
		os.Exit(code)
	}
	if look.Asked(os.Args) {
		os.Exit(look.Main())
	}
	os.Exit(keeper.Main())
}
