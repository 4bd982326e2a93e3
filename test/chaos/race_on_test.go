//go:build race

package chaos

// raceEnabled: the tests run under the race detector, and the binary is built with it too.
const raceEnabled = true
