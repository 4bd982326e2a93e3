package yarn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Defaults for the master of a request. Spark in client mode requests 512 MiB and 384 MiB of
// overhead, which YARN rounds up to a container of 1 GiB.
const (
	defaultAMMemory = 1 << 30
	defaultAMCPU    = core
)

// parseLimits parses the settings about the limits of applications.
func (s *settings) parseLimits(given map[string]string) error {
	am := resource.Vector{}.WithMemory(defaultAMMemory).WithCPU(defaultAMCPU)
	if text, said := given[settingAM]; said {
		v, err := container(settingAM, text)
		if err != nil {
			return err
		}
		am = v
	}
	s.terms.Application = withMasters(resource.Vector{}, &am, false).With(resource.Applications, 1)
	user, err := providers.UserLabel(given, settingUserLabel)
	if err != nil {
		return err
	}
	s.terms.UserLabel = user
	switch text := given[settingCalculator]; text {
	case "", "detect":
	case string(CalculatorDefault), string(CalculatorDominant):
		s.assume.Calculator = Calculator(text)
	default:
		return &providers.SettingError{Setting: settingCalculator, Value: text, Want: "default, dominant or detect"}
	}
	if text, said := given[settingSmallest]; said {
		v, err := container(settingSmallest, text)
		if err != nil {
			return err
		}
		s.assume.Container = v
	}
	s.terms.Container = resource.Normalization{Minimum: s.assume.Container, Increment: s.assume.Container}
	if text, said := given[settingContainerStep]; said {
		v, err := container(settingContainerStep, text)
		if err != nil {
			return err
		}
		s.terms.Container.Increment = v
	}
	if text, said := given[settingAMShare]; said {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || share != -1 && !(share > 0 && share <= 1) {
			return &providers.SettingError{Setting: settingAMShare, Value: text, Want: "a share above 0 and up to 1, such as 0.5, or -1 for no limit"}
		}
		s.assume.AMShare = share
	}
	if err := s.parseMoves(given); err != nil {
		return err
	}
	return s.parseUndeclared(given)
}

// parseMoves parses the settings about the growth of the cluster, and about applications that it
// holds back.
func (s *settings) parseMoves(given map[string]string) error {
	if text, said := given[settingGrowsTo]; said {
		v, err := container(settingGrowsTo, text)
		if err != nil {
			return &providers.SettingError{Setting: settingGrowsTo, Value: text, Want: "memory and cpu of the whole cluster, such as memory=10TiB,cpu=2000"}
		}
		s.assume.GrowsTo = v
	}
	switch text := given[settingAwaitStarts]; text {
	case "", "false":
	case "true":
		s.terms.AwaitStarts = true
	default:
		return &providers.SettingError{Setting: settingAwaitStarts, Value: text, Want: "true or false"}
	}
	return nil
}

// parseUndeclared parses the list of parents whose children the cluster creates on first use.
func (s *settings) parseUndeclared(given map[string]string) error {
	text, said := given[settingUndeclared]
	switch {
	case !said, text == "any":
		s.assume.Undeclared.Fair = true
		return nil
	case text == "none":
		return nil
	}
	list, ok := providers.ParseList(text)
	if !strings.HasPrefix(text, "[") {
		list = strings.Split(text, ",")
	}
	for _, path := range list {
		ok = ok && resource.ValidPath(path) && !strings.ContainsAny(path, ", ") && (path == rootQueue || strings.HasPrefix(path, rootQueue+"."))
	}
	if !ok {
		return &providers.SettingError{
			Setting: settingUndeclared, Value: text,
			Want: `any, none, or the full paths of parent queues, such as root.users,root.adhoc, or ["root.users","root.adhoc"]`,
		}
	}
	s.assume.Undeclared.Parents = list
	return nil
}

// rootQueue is the queue above all others.
const rootQueue = "root"

// container parses "memory=1GiB,cpu=1".
func container(setting, text string) (resource.Vector, error) {
	wrong := &providers.SettingError{Setting: setting, Value: text, Want: "memory and cpu of a container, such as memory=1GiB,cpu=1"}
	quantities := make(map[string]string)
	for pair := range strings.SplitSeq(text, ",") {
		name, quantity, found := strings.Cut(pair, "=")
		if _, twice := quantities[name]; !found || twice || name != resource.Memory && name != resource.CPU {
			return resource.Vector{}, wrong
		}
		quantities[name] = quantity
	}
	var v resource.Vector
	for _, name := range []string{resource.Memory, resource.CPU} {
		quantity, said := quantities[name]
		if !said {
			continue
		}
		n, err := resource.ParseTyped(name, quantity)
		if of, typed := errors.AsType[*resource.FieldError](err); typed {
			wrong.Want = fmt.Sprintf("%s of a container: %q is not %s", name, of.Value, of.Want)
			return resource.Vector{}, wrong
		}
		if name == resource.Memory && n > 0 && n < leastContainer {
			wrong.Want = fmt.Sprintf("memory of a container: 1MiB or more, not %s", quantity)
			return resource.Vector{}, wrong
		}
		v = v.With(name, n)
	}
	return v, nil
}

// leastContainer is YARN's unit of memory.
const leastContainer = 1 << 20

// Terms returns the terms in valid settings.
func (kind) Terms(given map[string]string) providers.Terms {
	s, err := parseSettings(given)
	if err != nil {
		return providers.Terms{}
	}
	return s.terms
}
