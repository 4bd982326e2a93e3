package label

// Rules change a request's labels before these select quotas, hosts and queues. They apply in this
// order: aliases convert keys and values to canonical ones, defaults add missing labels,
// derivations make labels from other labels, and finally required keys must exist. A label that no
// rule and no quota mentions stays unchanged and limits nothing.
//
// A label with the empty value counts as missing everywhere, except user: a request with an empty
// user is refused. After the defaults, a request without a user is for the only user that its
// caller may act as, if there is exactly one.
type Rules struct {
	Aliases []Alias `yaml:"aliases"`
	// Defaults are labels that a request gets if it lacks them.
	Defaults map[string]string `yaml:"defaults"`
	Derived  []Derivation      `yaml:"derived"`
	// Required are keys that a request must have after all other rules.
	Required []string `yaml:"required"`
}

// Alias converts other spellings of one label.
type Alias struct {
	// Key is the label's key in Bursar.
	Key string `yaml:"key"`
	// Keys are other keys with the same meaning, such as "engine_type" for "engineType". A request
	// with several of them and different values is refused.
	Keys []string `yaml:"keys"`
	// Values are other values, each with its replacement: "spark3": "spark-3.3".
	Values map[string]string `yaml:"values"`
}

// Derivation makes one label. It looks up the value of another label, exactly or by pattern; or it
// combines several by a template; or it sets the same value for everyone by a default alone.
// Callers cannot claim the label: a request that has it with another value is refused.
type Derivation struct {
	// Key is the derived label.
	Key string `yaml:"key"`
	// From is the label whose value Values and Patterns look up.
	From string `yaml:"from"`
	// Values are exact values, each with its result. They are tried first.
	Values map[string]string `yaml:"values"`
	// Patterns are tried in order; the first that matches decides.
	Patterns []Pattern `yaml:"patterns"`
	// Template combines labels, "${user}-${creator}". It replaces From. If one of the labels is
	// missing, it gives no result.
	Template string `yaml:"template"`
	// Default is the result if there is no other. Without it the label is not set.
	Default string `yaml:"default"`
}

// Pattern is either a prefix or a regular expression.
type Pattern struct {
	// Prefix matches values that begin with it.
	Prefix string `yaml:"prefix"`
	// Match is a regular expression (RE2). It must match the whole value.
	Match string `yaml:"match"`
	// Value is the result. With Match, "${1}" and "${name}" stand for captured groups; "$$" is a
	// dollar sign.
	Value string `yaml:"value"`
}
