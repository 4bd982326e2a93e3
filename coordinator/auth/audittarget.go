package auth

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// targetOf returns the subject of a request in a few words, for the audit log, and its request id.
func targetOf(message any) (target, requestID string) {
	if m, ok := message.(interface{ GetRequestId() string }); ok {
		requestID = m.GetRequestId()
	}
	switch m := message.(type) {
	case *bursarv1.PutRequest:
		return "quota " + selectorText(m.GetQuota().GetSelector()), requestID
	case *bursarv1.DeleteRequest:
		return "quota " + selectorText(m.GetSelector()), requestID
	case *bursarv1.ApplyRequest:
		return fmt.Sprintf("%d quotas of %q", len(m.GetQuotas()), m.GetSource()), requestID
	case *bursarv1.PutProviderRequest:
		return providerText(m.GetProvider()), requestID
	case *bursarv1.CheckProviderRequest:
		return providerText(m.GetProvider()), requestID
	case *bursarv1.DeleteProviderRequest:
		return "provider " + m.GetKind() + ":" + m.GetCluster(), requestID
	case *bursarv1.ReleaseRequest:
		target = "allocation " + m.GetId()
		if m.GetForce() {
			target += ", forced"
		}
		return target, requestID
	case *bursarv1.SignalRequest:
		return "allocation " + m.GetId() + ", " + m.GetSignal().String(), requestID
	case *bursarv1.AllocateRequest:
		return "user " + m.GetLabels()["user"], requestID
	case *bursarv1.StartRequest:
		return startText(m), m.GetRequest().GetRequestId()
	case interface{ GetHostId() string }:
		if m.GetHostId() != "" {
			target = "host " + m.GetHostId()
		}
		return target, requestID
	case interface{ GetId() string }:
		if m.GetId() != "" {
			target = "allocation " + m.GetId()
		}
		return target, requestID
	default:
		return "", requestID
	}
}

// startText describes a launch. It names the program as the allocation does. It omits arguments,
// environment and secrets.
func startText(m *bursarv1.StartRequest) string {
	spec := m.GetLaunch()
	program := "script"
	if command := spec.GetCommand(); len(spec.GetScript()) == 0 {
		program = ""
		if len(command) > 0 {
			program = path.Base(command[0])
		}
	}
	return fmt.Sprintf("user %s, account %q, program %q", m.GetRequest().GetLabels()["user"], shortened(spec.GetAccount()), shortened(program))
}

// providerText describes a provider with its settings. Settings name secrets and hold none. If an
// operator has put a secret into an address, the address is refused, and the audit log omits the
// secret.
func providerText(p *bursarv1.Provider) string {
	user := regexp.MustCompile(`://[^,]*@`)
	parts := []string{"provider " + p.GetKind() + ":" + p.GetCluster()}
	if p.GetDefault() {
		parts = append(parts, "(default)")
	}
	for _, name := range slices.Sorted(maps.Keys(p.GetSettings())) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, user.ReplaceAllString(p.GetSettings()[name], "://…@")))
	}
	return strings.Join(parts, " ")
}

func selectorText(selector map[string]string) string {
	if len(selector) == 0 {
		return "*"
	}
	parts := make([]string, 0, len(selector))
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		parts = append(parts, key+"="+selector[key])
	}
	return strings.Join(parts, ",")
}
