package process

import "context"

// Left reports whether a process lives that is or may be an engine's: a descendant of its root, a
// member of a cgroup that the agent made for it, a process that was counted as the engine's, or one
// in the session or group of its root. The engine's reaper does not count. It reads the whole
// process table; one call at a time does.
func (o *Opener) Left(ctx context.Context, e Engine) (bool, error) {
	select {
	case o.reading <- struct{}{}:
		defer func() { <-o.reading }()
	case <-ctx.Done():
		return false, ctx.Err() //nolint:wrapcheck // it is the caller's own
	}
	found, err := findProcesses(o.proc, e, newDescent(e))
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if f.Ref != e.Reaper && (f.descends || f.measured || f.numbered) {
			return true, nil
		}
	}
	return false, nil
}
