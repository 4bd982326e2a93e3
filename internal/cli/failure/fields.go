package failure

import (
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// TypedAs names a field of a request as the user has typed it: --memory for resource.memory_bytes,
// --label user for labels[user]. A field for which the command has no flag keeps its name.
func (r *Reporter) TypedAs(field string) string {
	path := withinMessage(field)
	path, entry, _ := strings.Cut(path, "[")
	entry, within, _ := strings.Cut(entry, "]")
	parts := []string{entry, strings.TrimPrefix(within, ".")}
	group, last, nested := strings.Cut(path, ".")
	flag := strings.ReplaceAll(path, "_", "-")
	switch {
	case nested && (group == "resource" || group == "entitled" || group == "limit"):
		if flag = flagOfDimension(last); r.Flags != nil && !r.hasFlag(flag) {
			flag, parts = "custom", []string{last}
		}
	case nested && group == "guaranteed" && last == "custom":
		flag = group
	case group == "guaranteed" && last != "external":
		flag, parts = group, []string{flagOfDimension(last)}
	default:
		if known, ok := flagsOfFields()[path]; ok {
			flag = known
		}
	}
	if flag == "workdir" && (strings.HasPrefix(field, "launch.") || !r.hasFlag(flag)) {
		flag = "dir"
	}
	if !r.hasFlag(flag) {
		return field
	}
	return "--" + withParts(flag, parts)
}

// withParts adds to a flag the parts of its value that a field names.
func withParts(flag string, parts []string) string {
	for _, part := range parts {
		if part != "" && !isNumber(part) {
			flag += " " + part
		}
	}
	return flag
}

// withinMessage is the path of a field without the messages that all fields of a command are in.
func withinMessage(field string) string {
	path := strings.TrimPrefix(strings.TrimPrefix(field, "request."), "launch.")
	if i := strings.LastIndex(path, ": "); i >= 0 { // of a rule, with its selector
		path = path[i+len(": "):]
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, "quota."), "provider.")
}

// hasFlag reports whether the command that runs has a flag.
func (r *Reporter) hasFlag(name string) bool { return r.Flags != nil && r.Flags.Lookup(name) != nil }

// inTyped names the fields in a message as the user has typed them: the one that it begins with,
// and those that the hosts of its tries have found wrong.
func (r *Reporter) inTyped(message string) string {
	parts := strings.Split(message, "; ")
	for i, part := range parts {
		parts[i] = r.partInTyped(part, i == 0)
	}
	return strings.Join(parts, "; ")
}

// partInTyped names the first field in a part of a message. The text after words with quotes is
// somebody's own.
func (r *Reporter) partInTyped(part string, first bool) string {
	before := ""
	for rest := part; ; {
		field, after, found := strings.Cut(rest, ": ")
		if !found || strings.ContainsAny(field, `"'`) {
			return part
		}
		isPath := first && before == "" || strings.ContainsAny(field, "_.[")
		if name := r.withValue(field, strings.HasPrefix(after, `"`)); isPath && name != field {
			if strings.HasPrefix(after, `"`) { // the value
				return before + name + " " + after
			}
			return before + name + ": " + after
		}
		before, rest = before+field+": ", after
	}
}

// withValue is TypedAs, with the value of the flag unless that is said already or may be a secret.
// The program of a launch is the argument COMMAND.
func (r *Reporter) withValue(field string, said bool) string {
	if withinMessage(field) == "command[0]" && r.Flags != nil {
		return "COMMAND"
	}
	name := r.TypedAs(field)
	flagName, isFlag := strings.CutPrefix(name, "--")
	if !isFlag || said || r.Flags == nil {
		return name
	}
	flag := r.Flags.Lookup(flagName)
	if flag == nil || !flag.Changed {
		return name
	}
	switch flag.Value.Type() {
	case "string":
		return name + " " + strconv.Quote(spelling.Cut(flag.Value.String(), mostShown))
	case "int32", "int64", "int", "duration":
		return name + " " + flag.Value.String()
	}
	return name
}

// mostShown bounds the shown part of a value, in bytes.
const mostShown = 64

// flagOfDimension is the flag for a field of a resource. Its name in the API may have the unit.
func flagOfDimension(field string) string {
	return strings.TrimSuffix(strings.TrimSuffix(field, "_bytes"), "_millis")
}

// flagsOfFields are the flags whose names are not those of their fields.
func flagsOfFields() map[string]string {
	return map[string]string{
		"labels": "label", "reservation_ttl": "ttl", "host_id": "host", "states": "state", "after_revision": "after",
		"ended_since": "since", "ended_before": "until",
		"host.id": "host", "host.required_labels": "require", "host.preferred_labels": "prefer", "host.avoid": "avoid",
		"host.required_rules": "require", "host.preferred_rules": "prefer", "host.avoided_rules": "avoid",
		"account": "account", "ready.port": "ready-port", "ready.file": "ready-file", "ready.line.pattern": "ready-line", "ready.line": "ready-line",
		"ready.command.command": "ready-command", "ready.command": "ready-command", "ready.within": "ready-within", "ready": "ready-port",
		"required_files": "need-file", "required_variables": "need-variable", "secrets": "secret", "phases": "phase", "tail_lines": "tail",
		"process.pid": "pid", "process.cgroup": "cgroup", "application_ids": "application",
		"working_directory": "workdir", "logs.directory": "log-dir", "environment": "env",
		"guaranteed.external": "guaranteed-external", "length": "for",
	}
}

// InFlags names the fields of a client's configuration by their flags.
func InFlags(text string) string {
	return strings.NewReplacer(
		"tls.ca", "--tls-ca", "tls.cert", "--tls-cert", "tls.key", "--tls-key", "tls.serverName", "--tls-server-name", "tokenFile", "--token-file",
	).Replace(text)
}
