package providers

import "github.com/bursar/bursar/label"

// noUser is the value of a setting that says that users are not known.
const noUser = "none"

// UserLabel reads the setting, with this name, of the label that names the user of a request in a
// cluster: user by default, and empty if users are not known there. The error is a *SettingError.
func UserLabel(settings map[string]string, name string) (string, error) {
	text, given := settings[name]
	switch {
	case !given:
		return label.User, nil
	case text == noUser:
		return "", nil
	}
	if _, err := label.FromMap(map[string]string{text: "x"}); err != nil {
		return "", &SettingError{name, text, "the key of a label, such as user, or none"}
	}
	return text, nil
}
