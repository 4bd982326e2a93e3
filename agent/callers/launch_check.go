package callers

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/agent/refusal"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The bounds of a LaunchRequest, as its contract has them.
const (
	maxArguments   = 4096
	maxVariables   = 4096
	maxArgument    = 128 << 10
	maxVariable    = 1024 // of a name
	maxPath        = 4096
	maxLogBytes    = 1 << 40
	maxLogKeep     = 100
	shownOfAnError = 128 // bytes of a value that is wrong
)

var accountName = regexp.MustCompile(`^[a-zA-Z0-9_.@+\\-]{0,256}$`)

// CheckLaunch applies the rules of the contract. No coordinator sees these fields.
func CheckLaunch(r *bursarv1.LaunchRequest) error {
	if n := len(r.GetCommand()); n > maxArguments {
		return refusal.Invalid("command", strconv.Itoa(n)+" arguments", "at most "+strconv.Itoa(maxArguments))
	}
	for i, argument := range r.GetCommand() {
		if len(argument) > maxArgument || strings.ContainsRune(argument, 0) {
			return refusal.Invalid("command["+strconv.Itoa(i)+"]", shown(argument), "at most 128 KiB without a zero byte")
		}
	}
	if err := checkEnvironment(r.GetEnvironment()); err != nil {
		return err
	}
	logs := r.GetLogs()
	for _, of := range []struct{ field, value string }{{"working_directory", r.GetWorkingDirectory()}, {"logs.directory", logs.GetDirectory()}} {
		if of.value != "" && !path.IsAbs(of.value) || len(of.value) > maxPath || strings.ContainsRune(of.value, 0) {
			return refusal.Invalid(of.field, shown(of.value), "an absolute path of at most 4096 bytes")
		}
	}
	switch {
	case logs.GetMaxBytes() < 0 || logs.GetMaxBytes() > maxLogBytes:
		return refusal.Invalid("logs.max_bytes", strconv.FormatInt(logs.GetMaxBytes(), 10), "0 to 1 TiB")
	case logs.GetKeep() < 0 || logs.GetKeep() > maxLogKeep:
		return refusal.Invalid("logs.keep", strconv.Itoa(int(logs.GetKeep())), "0 to 100")
	case !accountName.MatchString(r.GetUser()):
		return refusal.Invalid("user", shown(r.GetUser()), "the name of an account")
	}
	return nil
}

func checkEnvironment(environment map[string]string) error {
	if n := len(environment); n > maxVariables {
		return refusal.Invalid("environment", strconv.Itoa(n)+" variables", "at most "+strconv.Itoa(maxVariables))
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		value := environment[name]
		if name == "" || len(name) > maxVariable || strings.ContainsAny(name, "=\x00") || len(value) > maxArgument || strings.ContainsRune(value, 0) {
			return refusal.Invalid("environment", shown(name), "names of 1 to 1024 bytes without =, and values of at most 128 KiB, without a zero byte")
		}
	}
	return nil
}

// shown is the part of a wrong value that is told.
func shown(value string) string {
	return strings.ToValidUTF8(value[:min(len(value), shownOfAnError)], "")
}
