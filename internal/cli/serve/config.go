package serve

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/duration"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/internal/yamlfile"
)

// configuration remembers where a server's settings came from, so that an error can name the
// place.
type configuration struct {
	file string
	doc  *yamlfile.Document // nil: no file
	// set are the fields that the environment or a flag has set, each with the name of the
	// variable or flag.
	set map[string]string
	// variables are all that can set a field. unknown are those of the environment that begin like
	// them but set no field.
	variables, unknown []string
}

// loadConfig reads a file into config, a pointer to a struct with yaml tags, and then the
// environment. A variable wins over the file. A field's variable is the prefix and the field's
// path in capitals: BURSAR_COORDINATOR_LIMITS_QUEUE. The standard file may be missing.
func loadConfig(file, standard, prefix string, config any) (*configuration, error) {
	c := &configuration{file: cmp.Or(file, standard), set: make(map[string]string)}
	data, err := regularfile.Read(cmp.Or(file, standard), yamlfile.MaxBytes)
	switch {
	case file == "" && errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, failure.Config(fmt.Errorf("read configuration: %w", err))
	default:
		if c.doc, err = yamlfile.Parse(cmp.Or(file, standard), data); err == nil {
			err = c.doc.Decode(config)
		}
		if err != nil {
			return nil, failure.Config(err)
		}
	}
	if err := c.environment(prefix, "", reflect.ValueOf(config).Elem()); err != nil {
		return nil, failure.Config(err)
	}
	c.findUnknown(prefix)
	return c, nil
}

// findUnknown finds variables that look as if they were for a field, but name none.
func (c *configuration) findUnknown(prefix string) {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, prefix+"_") && !slices.Contains(c.variables, name) {
			c.unknown = append(c.unknown, name)
		}
	}
	slices.Sort(c.unknown)
}

// suggestion names the right variable in place of an unknown one.
func (c *configuration) suggestion(unknown string) string {
	best, least := "", len(unknown)
	for _, variable := range c.variables {
		if distance := spelling.Distance(unknown, variable); distance < least {
			best, least = variable, distance
		}
	}
	if least > maxTypos {
		parts := strings.SplitN(unknown, "_", 3)
		return parts[0] + "_" + parts[1] + "_ and a field in capitals"
	}
	return best
}

// maxTypos is the number of wrong letters up to which a variable is recognized.
const maxTypos = 3

// warn logs the variables that set nothing.
func (c *configuration) warn(log *slog.Logger) {
	for _, variable := range c.unknown {
		log.Warn("a variable sets nothing", "variable", variable, "want", c.suggestion(variable))
	}
}

// environment sets fields from their variables, if they are a single value or a list of texts.
func (c *configuration) environment(prefix, path string, into reflect.Value) error {
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		field, variable := into.Field(i), prefix+"_"+capitals(name)
		if field.Kind() == reflect.Struct {
			if err := c.environment(variable, path+name+".", field); err != nil {
				return err
			}
			continue
		}
		c.variables = append(c.variables, variable)
		text, found := os.LookupEnv(variable)
		if !found {
			continue
		}
		if wrong := setField(field, text); wrong != "" {
			return fmt.Errorf("%s: %q: want %s", variable, text, wrong)
		}
		c.set[path+name] = variable
	}
	return nil
}

// setField reads the text into a field. If it cannot, it returns the right form.
func setField(field reflect.Value, text string) (want string) {
	if reader, ok := reflect.TypeAssert[encoding.TextUnmarshaler](field.Addr()); ok {
		if err := reader.UnmarshalText([]byte(text)); err != nil {
			return err.Error()
		}
		return ""
	}
	switch field.Interface().(type) {
	case time.Duration:
		d, err := duration.Parse(text)
		if err != nil {
			return "a duration such as 500ms, 30s or 5m"
		}
		field.SetInt(int64(d))
	case string:
		field.SetString(text)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return "true or false"
		}
		field.SetBool(b)
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return "a whole number"
		}
		field.SetInt(int64(n))
	case []string:
		field.Set(reflect.ValueOf(strings.Split(text, ",")))
	default:
		return "nothing: this is for the file alone"
	}
	return ""
}

// capitals writes "dataDir" as "DATA_DIR".
func capitals(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' && (name[i-1] < 'A' || name[i-1] > 'Z') {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

// wrong is the error for a field that cannot be used, with the place where it was set.
func (c *configuration) wrong(field, reason string) error { return failure.Config(c.at(field, reason)) }

// at is the error for a field, or for an item of a list, with the place where it was set.
func (c *configuration) at(field, reason string) error {
	list, _, _ := strings.Cut(field, "[")
	by, overridden := c.set[field]
	if !overridden {
		by, overridden = c.set[list]
	}
	switch {
	case overridden:
		return fmt.Errorf("%s: %s", by, reason)
	case c.doc != nil:
		return c.doc.At(field, reason)
	default:
		return fmt.Errorf("%s: %s", field, reason)
	}
}
