package providers

import "github.com/bursar/bursar/label"

// noUser is the value of the setting if the users of a cluster are unknown.
const noUser = "none"

// UserLabel reads the setting with the given name: the key of the request label that names the user
// in a cluster. The default is user; the result is empty if users are unknown there. The error is a
// *SettingError.
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
