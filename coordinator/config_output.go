package coordinator

import (
	"github.com/bursar/bursar/coordinator/outputs"
	"github.com/bursar/bursar/resource"
)

// Output bounds the output of engines that this coordinator sends to readers (bursar logs). A
// reader beyond a bound waits.
type Output struct {
	// CallerRate is how much the readers of one caller get together, in bytes a second. A higher
	// rate lets one caller load the hosts and the network more. Default 16 MiB.
	CallerRate resource.Size `yaml:"callerRate" reload:"live"`
	// Rate is how much all readers of this coordinator get together, in bytes a second. Default
	// 64 MiB.
	Rate resource.Size `yaml:"rate" reload:"live"`
}

func (o Output) rates() outputs.Rates {
	return outputs.Rates{Caller: int64(o.CallerRate), All: int64(o.Rate)}
}
