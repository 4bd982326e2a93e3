package agent

import (
	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/launch"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// containment says who starts an engine's keeper, and with which limits of a cgroup of its own; nil: it gets none.
func (a *Agent) containment(_ *bursarv1.Allocation, _ *bursarv1.Resource) (launch.Spawner, *cgroup.Limits) {
	return a.direct, nil
}
