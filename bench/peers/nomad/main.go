package main

import (
	"fmt"
	"os"

	"github.com/bursar/bursar/bench/peers"
)

func main() {
	if err := peers.Serve(&scheduler{}, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nomad:", err)
		os.Exit(1) //nolint:forbidigo // only main exits
	}
}
