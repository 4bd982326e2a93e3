package tracing

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// asked reports whether the environment enables traces. The error is about an impossible setting.
//
// The environment enables them with a collector, in OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or with OTEL_TRACES_EXPORTER=otlp, which then means the
// collector of this machine. OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none disable them. The
// SDK itself reads the settings of sampling, of additional headers and of timing from the
// environment.
func asked() (bool, error) {
	if strings.EqualFold(value("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	variable := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	endpoint := value(variable)
	if endpoint == "" {
		variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
		endpoint = value(variable)
	}
	switch exporter := value("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "otlp":
	case "":
		if endpoint == "" {
			return false, nil
		}
	default:
		return false, wrong("OTEL_TRACES_EXPORTER", exporter, "otlp or none")
	}
	if endpoint != "" {
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			// Not quoted: it may contain a password.
			return false, errors.New(variable + ": want the URL of a collector, such as http://127.0.0.1:4318")
		}
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := value(variable); protocol {
		case "":
			continue
		case "http/protobuf", "http/json":
			return true, nil
		default:
			return false, wrong(variable, protocol, "http/protobuf or http/json, for which collectors listen on port 4318")
		}
	}
	return true, nil
}

func value(variable string) string { return strings.TrimSpace(os.Getenv(variable)) }

func wrong(variable, value, want string) error {
	return fmt.Errorf("%s: %q: want %s", variable, value, want)
}
