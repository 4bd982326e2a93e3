// Command bursar-linkis-check tells the differences that an Apache Linkis would have on Bursar. It
// is a program of its own because nobody else needs the driver of Linkis's database.
package main

import (
	"context"
	"os"

	"github.com/bursar/bursar/integrations/linkis/check/command"
)

// The linker sets version.
var version = "devel"

func main() {
	os.Exit(command.Execute(context.Background(), version, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
