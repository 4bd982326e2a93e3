package providers

import (
	"encoding/json"
	"strings"
)

// Setting is one setting of a provider. Which there are is declared as a list of these, so that
// what checks settings and the configuration reference cannot differ.
type Setting struct {
	Name string
	// Type is how its value is written.
	Type SettingType
	// Doc says what it does, with its default and its bounds.
	Doc string
}

// SettingType is how the value of a setting is written.
type SettingType string

// The types.
const (
	Text     SettingType = "text"
	Duration SettingType = "duration"
	Size     SettingType = "size"
	Flag     SettingType = "true or false"
	// List is one text, or a list of texts: a list of YAML in a file, and a JSON array in the
	// setting's value.
	List SettingType = "text, or list of text"
	// File is the path of a file that the coordinator reads.
	File SettingType = "file"
)

// SettingNames are the names in a list.
func SettingNames(list []Setting) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return names
}

// FileSettings are the names of those in a list that are files.
func FileSettings(list []Setting) (names []string) {
	for _, s := range list {
		if s.Type == File {
			names = append(names, s.Name)
		}
	}
	return names
}

// ParseList reads the value of a List: a JSON array of texts, or one text that does not begin as
// one. It is not ok if it begins as an array and is none, or if it has no items.
func ParseList(value string) (list []string, ok bool) {
	if !strings.HasPrefix(value, "[") {
		return []string{value}, true
	}
	if err := json.Unmarshal([]byte(value), &list); err != nil || len(list) == 0 {
		return nil, false
	}
	return list, true
}
