package agent

// CallersConfig bounds what one user of the machine may ask of the agent; what is beyond it is refused with UNAVAILABLE. Trusted callers
// are not bound by it. All that call over LoopbackListen count as one user.
type CallersConfig struct {
	// Rate is how many requests a second a user may make in the long run. Default 50.
	Rate int `yaml:"rate"`
	// Burst is how many of them may come at once. Default 200.
	Burst int `yaml:"burst"`
	// Waiting is how many requests of a user may wait for resources at a time, watches and launches included. Default 64.
	Waiting int `yaml:"waiting"`
}
