package providers

import (
	"encoding/json"
	"strings"
)

// Setting describes one setting of a provider. One list of these feeds both the check of settings
// and the configuration reference, so the two cannot differ.
type Setting struct {
	Name string
	// Type is the syntax of the value.
	Type SettingType
	// Doc describes the setting, with its default and its bounds.
	Doc string
}

// SettingType is the syntax of the value of a setting.
type SettingType string

// The types.
const (
	Text     SettingType = "text"
	Duration SettingType = "duration"
	Size     SettingType = "size"
	Flag     SettingType = "true or false"
	// List is one text or a list of texts: a YAML list in a file, a JSON array in the value of the
	// setting.
	List SettingType = "text, or list of text"
	// File is the path of a file that the coordinator reads.
	File SettingType = "file"
)

// SettingNames returns the names of the settings in a list.
func SettingNames(list []Setting) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return names
}

// FileSettings returns the names of the settings of type File in a list.
func FileSettings(list []Setting) (names []string) {
	for _, s := range list {
		if s.Type == File {
			names = append(names, s.Name)
		}
	}
	return names
}

// ParseList reads the value of a List: a JSON array of texts, or one text that does not start with
// a bracket. ok is false if the value starts as an array but is malformed or empty.
func ParseList(value string) (list []string, ok bool) {
	if !strings.HasPrefix(value, "[") {
		return []string{value}, true
	}
	if err := json.Unmarshal([]byte(value), &list); err != nil || len(list) == 0 {
		return nil, false
	}
	return list, true
}
