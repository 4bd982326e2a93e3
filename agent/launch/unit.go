package launch

import (
	"context"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/unit"
)

// ByUnit is a Spawner that makes systemd start a service for each keeper. So every engine has a
// cgroup of its own and runs on when the agent's service ends.
type ByUnit struct {
	Units *unit.Units
}

var _ Spawner = ByUnit{}

// Spawn starts a service. systemd 252 starts no service as a user without an account: such a keeper
// starts as root and becomes its user itself.
func (b ByUnit) Spawn(ctx context.Context, s Spawn) (Spawned, error) {
	service := unit.Service{
		ID: s.ID, Command: s.command(),
		UID: s.User.UID, GID: s.User.GID, Groups: s.User.Groups,
		Environment: keeperEnvironment(), Umask: keeperUmask,
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Record,
	}
	if s.User.Accountless {
		service.UID, service.GID, service.Groups = 0, 0, nil
		service.Environment = append(service.Environment, keeper.As(s.User.UID, s.User.GID, s.User.Groups))
	}
	if s.Limits != nil {
		service.Limits = *s.Limits
	}
	started, err := b.Units.Start(ctx, service)
	if err != nil {
		return Spawned{}, err //nolint:wrapcheck // names the unit
	}
	return Spawned{PID: started.PID, Cgroup: started.Cgroup}, nil
}
