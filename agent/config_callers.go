package agent

// CallersConfig bounds what one user of the machine may ask of the agent. Trusted callers are not bound by it.
type CallersConfig struct {
	// Rate is requests a second, over time. Default 50.
	Rate int `yaml:"rate"`
	// Burst is how many at once. Default 200.
	Burst int `yaml:"burst"`
	// Waiting is how many requests may wait for resources at a time. Default 64.
	Waiting int `yaml:"waiting"`
}
