package exec

import "github.com/bursar/bursar/providers"

// Names of the settings, except those of providers.PaceSettings.
const (
	settingCommand     = "command"
	settingUser        = "user"
	settingEnvironment = "environment"
	settingDirectory   = "directory"
	settingMaxBytes    = "maxBytes"
	settingUserLabel   = "userLabel"
)

// Settings lists the settings of a command, except those of providers.PaceSettings.
func Settings() []providers.Setting {
	return []providers.Setting{
		{Name: settingCommand, Type: providers.List, Doc: "The program, by its whole path, and its arguments: [/usr/local/libexec/queues, --all]. No shell reads it. " +
			"Root or the coordinator's user must own the program and every folder above it, and nobody else may write to them. Needed."},
		{Name: settingUser, Type: providers.Text, Doc: "The user that it runs as, by name or uid, from /etc/passwd; never root. " +
			"Needed if the coordinator runs as root. Another user than the coordinator's needs root, or CAP_SETUID, CAP_SETGID and CAP_KILL. Default: the coordinator's."},
		{Name: settingEnvironment, Type: providers.List, Doc: "Variables that it gets: NAME with the coordinator's value, or NAME=VALUE. Default: none. " +
			"PATH (" + defaultPath + ") and LANG (" + defaultLang + ") are always there, unless they are listed. What stands here is shown in `bursar providers`: no secrets."},
		{Name: settingDirectory, Type: providers.Text, Doc: "Its working directory, a whole path. Default /."},
		{Name: settingMaxBytes, Type: providers.Size, Doc: "The most that it may print. Default 4MiB; 4KiB to 64MiB."},
		{Name: settingUserLabel, Type: providers.Text, Doc: "The label of a request that names the user that its application runs as there. If the command prints another user of an application, that counts as others'. Default user. none: users are not known."},
	}
}

// settingNames lists all names, in display order.
func settingNames() []string {
	return providers.SettingNames(append(Settings(), providers.PaceSettings()...))
}
