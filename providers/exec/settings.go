package exec

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

const (
	defaultPath     = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	defaultLang     = "C.UTF-8"
	defaultMaxBytes = 4 << 20
	leastMaxBytes   = 4 << 10
	mostMaxBytes    = 64 << 20
)

// settings holds the parsed settings of a command.
type settings struct {
	pace      providers.Pace
	command   []string
	user      string   // empty: the coordinator's user
	variables []string // NAME, or NAME=VALUE
	directory string
	maxBytes  int64
	userLabel string // empty: users are unknown
}

// parseSettings parses settings without looking at this machine. The error is a
// *providers.SettingError.
func parseSettings(given map[string]string) (settings, error) {
	if err := providers.CheckNames(given, settingNames()); err != nil {
		return settings{}, err
	}
	pace, err := providers.PaceFrom(given)
	if err != nil {
		return settings{}, err
	}
	s := settings{pace: pace, user: given[settingUser], directory: "/", maxBytes: defaultMaxBytes}
	if err := s.parseCommand(given[settingCommand]); err != nil {
		return s, err
	}
	if strings.ContainsAny(s.user, ":\n\x00") || s.user == "root" || s.user == "0" {
		return s, &providers.SettingError{Setting: settingUser, Value: s.user, Want: wantUser}
	}
	if text, is := given[settingEnvironment]; is {
		if err := s.parseEnvironment(text); err != nil {
			return s, err
		}
	}
	if text, is := given[settingDirectory]; is {
		if !validPath(text) {
			return s, &providers.SettingError{Setting: settingDirectory, Value: text, Want: "a whole path, such as /var/lib/queues"}
		}
		s.directory = text
	}
	if s.userLabel, err = providers.UserLabel(given, settingUserLabel); err != nil {
		return s, err
	}
	if text, is := given[settingMaxBytes]; is {
		if s.maxBytes, err = resource.ParseMemory(text); err != nil || s.maxBytes < leastMaxBytes || s.maxBytes > mostMaxBytes {
			return s, &providers.SettingError{Setting: settingMaxBytes, Value: text, Want: "a size such as 4MiB, from 4KiB to 64MiB"}
		}
	}
	return s, nil
}

func (s *settings) parseCommand(text string) error {
	wrong := func(want string) error {
		return &providers.SettingError{Setting: settingCommand, Value: text, Want: want}
	}
	list, ok := providers.ParseList(text)
	switch {
	case text == "":
		return wrong("a program and its arguments, such as [/usr/local/libexec/queues, --all]")
	case !ok:
		return wrong(`a list of texts, such as [/usr/local/libexec/queues, --all] in a file, or ["/usr/local/libexec/queues","--all"]`)
	case strings.Contains(text, " ") && text == list[0]:
		return wrong("the whole path of the program, and each argument as an item of its own, such as [/usr/local/libexec/queues, --all]; no shell reads it")
	case !validPath(list[0]):
		return wrong("the whole path of the program, such as /usr/local/libexec/queues; PATH is not searched")
	case slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "\x00") }):
		return wrong("no zero bytes")
	}
	s.command = list
	return nil
}

func (s *settings) parseEnvironment(text string) error {
	list, ok := providers.ParseList(text)
	if !ok {
		return &providers.SettingError{Setting: settingEnvironment, Value: text, Want: "a list of NAME or NAME=VALUE, such as [HTTPS_PROXY, KUBECONFIG=/etc/kubeconfig]"}
	}
	var names []string
	for _, variable := range list {
		name, _, _ := strings.Cut(variable, "=")
		if !validVariable(name) || strings.Contains(variable, "\x00") {
			return &providers.SettingError{Setting: settingEnvironment, Value: variable, Want: "NAME or NAME=VALUE, of letters, digits and _, a digit not first"}
		}
		if slices.Contains(names, name) {
			return &providers.SettingError{Setting: settingEnvironment, Value: variable, Want: "each variable once"}
		}
		names = append(names, name)
	}
	s.variables = list
	return nil
}

// validPath reports whether a text is an absolute path in its shortest form.
func validPath(text string) bool {
	return filepath.IsAbs(text) && filepath.Clean(text) == text && !strings.Contains(text, "\x00")
}

func validVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// environment returns the whole environment of the command. look finds variables of this process; a
// variable that look does not find is left out.
func (s *settings) environment(look func(name string) (string, bool)) []string {
	list := make([]string, 0, len(s.variables)+2)
	path, lang := false, false
	for _, variable := range s.variables {
		name, _, given := strings.Cut(variable, "=")
		path, lang = path || name == "PATH", lang || name == "LANG"
		if value, is := look(name); given {
			list = append(list, variable)
		} else if is {
			list = append(list, name+"="+value)
		}
	}
	if !path {
		list = append(list, "PATH="+defaultPath)
	}
	if !lang {
		list = append(list, "LANG="+defaultLang)
	}
	return list
}
