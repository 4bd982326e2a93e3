package once

// Step is the next action for an engine whose process waits in its keeper.
type Step uint8

// The steps, in their order. A later one is not begun before the one before it has succeeded.
const (
	// Confirm has the coordinator confirm the engine. The coordinator answers when that is durable:
	// from then on no leader gives the launch to another host while the engine may run.
	Confirm Step = iota
	// Store stores that the engine may have run. A later incarnation of the agent ends an engine
	// of which this is not stored, and says that nothing was executed.
	Store
	// Execute has the keeper execute the program.
	Execute
	// Begun: the engine runs, and nothing is left to do.
	Begun
	// Failed: a step has failed. The keeper has to end, and has executed nothing unless the step
	// was Execute.
	Failed
)

// Steps are those of one launch. The zero value is at the first step.
type Steps struct{ next Step }

// Next is the step that has to be done now.
func (s *Steps) Next() Step { return s.next }

// Over reports whether nothing is left to do.
func (s *Steps) Over() bool { return s.next >= Begun }

// Done notes how the step has ended.
func (s *Steps) Done(err error) {
	switch {
	case s.Over():
	case err != nil:
		s.next = Failed
	default:
		s.next++
	}
}
