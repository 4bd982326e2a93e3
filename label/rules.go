package label

// Rules change a request's labels before quotas, hosts and queues are chosen by them. They apply
// in this order: aliases convert keys and values to the ones used here, defaults add missing
// labels, derivations make labels from other labels, and finally required keys must be there. A
// label that no rule and no quota mentions stays unchanged and limits nothing.
//
// A label with the empty value counts as missing everywhere, except user: a request with an empty
// user is refused. After the defaults, a request without a user is for the one user that its caller
// may act as, if there is exactly one.
type Rules struct {
	Aliases []Alias `yaml:"aliases"`
	// Defaults are labels that a request gets if it does not have them.
	Defaults map[string]string `yaml:"defaults"`
	Derived  []Derivation      `yaml:"derived"`
	// Required are keys that a request must have when all other rules were applied.
	Required []string `yaml:"required"`
}

// Alias converts other spellings of one label.
type Alias struct {
	// Key is the label's key in Bursar.
	Key string `yaml:"key"`
	// Keys are other keys that mean the same, such as "engine_type" for "engineType". A request
	// that has several of them with different values is refused.
	Keys []string `yaml:"keys"`
	// Values are other values, each with the one that replaces it: "spark3": "spark-3.3".
	Values map[string]string `yaml:"values"`
}

// Derivation makes one label: from another one by looking its value up, exactly or by pattern;
// from several by a template; or the same for everyone by a default alone. The label cannot be
// claimed: a request that has it with another value is refused.
type Derivation struct {
	// Key is the label that is made.
	Key string `yaml:"key"`
	// From is the label that Values and Patterns look at.
	From string `yaml:"from"`
	// Values are exact values, each with its result. They are tried first.
	Values map[string]string `yaml:"values"`
	// Patterns are tried in order; the first that matches decides.
	Patterns []Pattern `yaml:"patterns"`
	// Template combines labels, "${user}-${creator}". It is used instead of From. If one of the
	// labels is missing, it gives no result.
	Template string `yaml:"template"`
	// Default is the result if nothing else gives one. Without it the label is not set.
	Default string `yaml:"default"`
}

// Pattern is either a prefix or a regular expression.
type Pattern struct {
	// Prefix matches values that begin with it.
	Prefix string `yaml:"prefix"`
	// Match is a regular expression (RE2). It must match the whole value.
	Match string `yaml:"match"`
	// Value is the result. With Match, "${1}" and "${name}" are what a group has captured; "$$" is
	// a dollar sign.
	Value string `yaml:"value"`
}
