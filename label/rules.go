package label

// Rules say what becomes of a request's labels before quotas, hosts and queues are chosen by them. They go in this order:
// aliases convert keys and values to the ones used here, defaults fill in what is missing, derivations make labels from other
// labels, and required keys must be there then. What no rule and no quota mentions passes unchanged and limits nothing.
//
// A label with the empty value counts as missing everywhere.
type Rules struct {
	Aliases []Alias `yaml:"aliases"`
	// Defaults are labels that a request gets where it does not have them.
	Defaults map[string]string `yaml:"defaults"`
	Derived  []Derivation      `yaml:"derived"`
	// Required are keys that a request must have in the end.
	Required []string `yaml:"required"`
}

// Alias converts other spellings of one label.
type Alias struct {
	// Key is the label's key here.
	Key string `yaml:"key"`
	// Keys are other keys that mean the same, such as "engine_type" for "engineType". A request that has several of them with
	// different values is refused.
	Keys []string `yaml:"keys"`
	// Values are other values, each with the one used here: "spark3": "spark-3.3".
	Values map[string]string `yaml:"values"`
}

// Derivation makes one label: from another one by looking its value up, exactly or by pattern; from several by a template; or
// the same for everyone by a default alone. The label cannot be claimed: a request that brings it with another value is refused.
type Derivation struct {
	// Key is the label that is made.
	Key string `yaml:"key"`
	// From is the label that Values and Patterns look at.
	From string `yaml:"from"`
	// Values come first: exact values, each with its result.
	Values map[string]string `yaml:"values"`
	// Patterns are tried in order; the first that matches decides.
	Patterns []Pattern `yaml:"patterns"`
	// Template combines labels, "${user}-${creator}", and stands instead of From. It gives nothing where one of them is missing.
	Template string `yaml:"template"`
	// Default is the result where nothing else gave one. Without it the label is not set then.
	Default string `yaml:"default"`
}

// Pattern is either a prefix or a regular expression.
type Pattern struct {
	// Prefix matches values that begin with it.
	Prefix string `yaml:"prefix"`
	// Match is a regular expression (RE2) for the whole value.
	Match string `yaml:"match"`
	// Value is the result. After Match, "${1}" and "${name}" stand for what a group has captured; "$$" is a dollar sign.
	Value string `yaml:"value"`
}
