package auth

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The record of a Start has the program's user, and no text that its caller would keep secret.
func TestAuditLogSaysWhatIsStartedAsWhom(t *testing.T) {
	request := &bursarv1.AllocateRequest{RequestId: "nightly", Labels: map[string]string{"user": "alice"}}
	for name, c := range map[string]struct {
		launch *bursarv1.LaunchSpec
		want   string
	}{
		"a program": {&bursarv1.LaunchSpec{Account: "etl", Command: []string{"/opt/spark/bin/spark-submit", "hunter2"}, Environment: map[string]string{"P": "hunter2"}}, `user alice, account "etl", program "spark-submit"`},
		"a script":  {&bursarv1.LaunchSpec{Account: "etl", Command: []string{"hunter2"}, Script: []byte("#!/bin/sh\nhunter2")}, `user alice, account "etl", program "script"`},
		"nothing":   {&bursarv1.LaunchSpec{}, `user alice, account "", program ""`},
		"no launch": {nil, `user alice, account "", program ""`},
		"lines":     {&bursarv1.LaunchSpec{Account: "e\ntl", Command: []string{"a\nb"}}, `user alice, account "e\ntl", program "a\nb"`},
	} {
		target, id := targetOf(&bursarv1.StartRequest{Request: request, Launch: c.launch, Secrets: map[string]string{"S": "hunter2"}})
		if target != c.want || id != "nightly" || strings.Contains(target, "hunter2") {
			t.Errorf("%s: %q, %q; want %q", name, target, id, c.want)
		}
	}
	if target, _ := targetOf(&bursarv1.SignalRequest{Id: "7", Signal: bursarv1.Signal_SIGNAL_INT}); target != "allocation 7, SIGNAL_INT" {
		t.Errorf("a signal: %q", target)
	}
	if long, _ := targetOf(&bursarv1.StartRequest{Launch: &bursarv1.LaunchSpec{Account: strings.Repeat("a", 10_000), Command: []string{strings.Repeat("b", 10_000)}}}); len(long) > 3*auditText {
		t.Errorf("a target of %d bytes", len(long))
	}
}
