package access_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/yamlfile"
)

const some = "sha256:0000000000000000000000000000000000000000000000000000000000000001"

func hash(last string) string { return some[:len(some)-len(last)] + last }

func TestFileOfIdentities(t *testing.T) {
	got, err := access.Parse("identities.yaml", []byte(`
identities:
  - {name: ops, role: operator, tokenHash: `+hash("1")+`}
  - name: gateway
    role: submitter
    tokenHash: [`+hash("2")+", "+hash("3")+`]
    users: ["*"]
    priority: true
  - {name: nightly, role: submitter, tokenHash: `+hash("4")+`, users: [alice, 007], notAfter: 2027-01-31}
  - {name: vm-1, role: agent, tokenHash: `+hash("5")+`, host: vm-1.example}
  - {name: root, role: admin, tokenHash: `+hash("6")+`, notAfter: "2027-01-31T12:00:00Z"}
  - {name: web, role: reader, tokenHash: `+hash("7")+`}
  - {name: c1, role: coordinator, tokenHash: `+hash("8")+`}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []access.Entry{
		{Actor: identity.Actor{Name: "ops", Role: identity.Operator, Priority: true}, Hashes: []string{hash("1")}},
		{Actor: identity.Actor{Name: "gateway", Role: identity.Submitter, Anyone: true, Priority: true}, Hashes: []string{hash("2"), hash("3")}},
		{Actor: identity.Actor{Name: "nightly", Role: identity.Submitter, Users: []string{"alice", "007"}}, Hashes: []string{hash("4")}, NotAfter: time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)},
		{Actor: identity.Actor{Name: "vm-1", Role: identity.Agent, Host: "vm-1.example"}, Hashes: []string{hash("5")}},
		{Actor: identity.Actor{Name: "root", Role: identity.Admin, Anyone: true, Priority: true, Admin: true}, Hashes: []string{hash("6")}, NotAfter: time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)},
		{Actor: identity.Actor{Name: "web", Role: identity.Reader}, Hashes: []string{hash("7")}},
		{Actor: identity.Actor{Name: "c1", Role: identity.Coordinator}, Hashes: []string{hash("8")}},
	}
	if diff := cmp.Diff(want, got.Entries()); diff != "" {
		t.Error(diff)
	}
	if none, err := access.Parse("x", []byte("identities: []")); err != nil || len(none.Entries()) != 0 {
		t.Errorf("%v", err)
	}
}

func TestWrongFileIsRefusedWithoutShowingWhatMayBeAToken(t *testing.T) {
	const secret = "bursar_verysecret"
	first := "identities:\n- {name: a, role: reader, tokenHash: " + some + "}\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "f.yaml: identities: missing: want a list of identities, or [] for none"},
		"unknown field":     {"identities:\n- {name: a, role: reader, token: " + secret + "}\n", "f.yaml:2:27: identities[0].token: unknown field: want name, role, tokenHash, users, priority, mayLaunch, host, capacity, labels or notAfter"},
		"a token":           {"identities:\n- {name: a, role: reader, tokenHash: " + secret + "}\n", "f.yaml:2:38: identities[0].tokenHash: is no hash: want sha256: and the 64 hex digits"},
		"a token in a list": {"identities:\n- {name: a, role: reader, tokenHash: ['" + some + "', " + secret + "]}\n", "identities[0].tokenHash: is no hash"},
		"another hash":      {"identities:\n- {name: a, role: reader, tokenHash: md5:0123}\n", "is no hash"},
		"no hash":           {"identities:\n- {name: a, role: reader}\n", "identities[0].tokenHash: missing: want sha256: and"},
		"no name":           {"identities:\n- {role: reader, tokenHash: " + some + "}\n", `identities[0].name: "": want 1 to 128 letters`},
		"a name with an @":  {"identities:\n- {name: alice@vm-1, role: reader, tokenHash: " + some + "}\n", `identities[0].name: "alice@vm-1": want`},
		"local":             {"identities:\n- {name: local, role: reader, tokenHash: " + some + "}\n", `"local" and "remote" are taken`},
		"unknown role":      {"identities:\n- {name: a, role: root, tokenHash: " + some + "}\n", `f.yaml:2:19: identities[0].role: "root": want reader, submitter, agent, operator, admin or coordinator`},
		"agent without":     {"identities:\n- {name: a, role: agent, tokenHash: " + some + "}\n", `identities[0].host: "": want the id of the agent's host`},
		"host of a reader":  {"identities:\n- {name: a, role: reader, host: h, tokenHash: " + some + "}\n", "identities[0].host: means nothing for the role reader: want it for agent only"},
		"no users":          {"identities:\n- {name: a, role: submitter, tokenHash: " + some + "}\n", `identities[0].users: missing: want the users that a submitter may act as, or ["*"] for all`},
		"users of an agent": {"identities:\n- {name: a, role: agent, host: h, users: [b], tokenHash: " + some + "}\n", "identities[0].users: means nothing for the role agent"},
		"mayLaunch root":    {"identities:\n- {name: a, role: submitter, users: [b], mayLaunch: [etl, root], tokenHash: " + some + "}\n", `identities[0].mayLaunch[1]: "root": want the name of an account on the hosts, never root or a pattern`},
		"mayLaunch all":     {"identities:\n- {name: a, role: operator, mayLaunch: ['*'], tokenHash: " + some + "}\n", `identities[0].mayLaunch[0]: "*": want the name of an account`},
		"mayLaunch reader":  {"identities:\n- {name: a, role: reader, mayLaunch: [etl], tokenHash: " + some + "}\n", "identities[0].mayLaunch: means nothing for the role reader: want it for submitter, operator and admin only"},
		"priority":          {"identities:\n- {name: a, role: submitter, users: [b], priority: high, tokenHash: " + some + "}\n", `identities[0].priority: "high": want true or false`},
		"time":              {"identities:\n- {name: a, role: reader, notAfter: soon, tokenHash: " + some + "}\n", `identities[0].notAfter: "soon": want a day such as`},
		"twice a name":      {first + "- {name: a, role: reader, tokenHash: " + hash("2") + "}\n", `f.yaml:3:10: identities[1].name: "a": want a name that no other identity has`},
		"twice a hash":      {first + "- {name: b, role: reader, tokenHash: " + some + "}\n", "identities[1].tokenHash: already that of a: want a token of its own"},
		"a certificate":     {"-----BEGIN CERTIFICATE-----\nMIIBfTCC\n-----END CERTIFICATE-----\n", "f.yaml: is no file of identities: want one with a list identities:"},
		"no YAML":           {"identities:\n- {name: a, tokenHash: " + secret + "\n", "f.yaml:"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := access.Parse("f.yaml", []byte(c.text))
			var e *yamlfile.Error
			if !errors.As(err, &e) || got != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, %v\nwant %s", got, err, c.want)
			}
			if strings.Contains(err.Error()+e.Excerpt(), secret) {
				t.Errorf("shows the secret: %v\n%s", err, e.Excerpt())
			}
		})
	}
}

func TestTokensAreLongAndNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token := access.NewToken()
		if seen[token] || !strings.HasPrefix(token, "bursar_") || len(token) != len("bursar_")+52 {
			t.Fatalf("token %q", token)
		}
		seen[token] = true
	}
	if got, want := access.Hash("abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestEditsKeepTheRestOfTheFile(t *testing.T) {
	const before = "# ours\nidentities:\n  # the gateway\n  - name: gateway # of the portal\n    role: reader\n    tokenHash: " + some + "\n\n  # the last one\n"
	entry, err := access.NewEntry(identity.Submitter, "nightly", "", []string{"alice", "*", "a b"}, []string{"etl", "123"}, true, time.Time{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	after, err := access.Append("f", []byte(before), entry)
	if err != nil {
		t.Fatal(err)
	}
	want := before + "  - name: nightly\n    role: submitter\n    tokenHash: " + access.Hash("token") + "\n    users: [alice, \"a b\", \"*\"]\n    priority: true\n    mayLaunch: [etl, \"123\"]\n"
	if diff := cmp.Diff(want, string(after)); diff != "" {
		t.Error(diff)
	}
	without, err := access.Remove("f", after, "nightly")
	if diff := cmp.Diff(before, string(without)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	last, err := access.Remove("f", without, "gateway")
	if diff := cmp.Diff("# ours\nidentities: []\n  # the gateway\n\n  # the last one\n", string(last)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	var missing *access.MissingError
	if _, err := access.Remove("f", after, "nobody"); !errors.As(err, &missing) {
		t.Errorf("%v: want a *MissingError", err)
	}
	var edit *access.EditError
	flow := "identities: [{name: a, role: reader, tokenHash: " + some + "}, {name: b, role: reader, tokenHash: " + hash("2") + "}]\n"
	if _, err := access.Remove("f", []byte(flow), "a"); !errors.As(err, &edit) {
		t.Errorf("%v: want an *EditError", err)
	}
	if _, err := access.Append("f", []byte(before), access.Entry{Actor: identity.Actor{Name: "gateway", Role: identity.Reader}, Hashes: []string{hash("9")}}); err == nil {
		t.Error("a name that is taken: want an error")
	}
	// users, a host, no such role
	for _, role := range []identity.Role{identity.Submitter, identity.Agent, "root"} {
		if _, err := access.NewEntry(role, "a", "", nil, nil, false, time.Time{}, "token"); err == nil {
			t.Errorf("%s: want an error", role)
		}
	}
}

func TestWhatIsAppendedIsReadAndRemovedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := []byte(rapid.SampledFrom([]string{"", "identities: []\n", "# x\nidentities: [ ] # none", "identities:\n- name: a1\n  role: reader\n  tokenHash: " + some + "\n"}).Draw(t, "content"))
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[b-zA-Z0-9][a-zA-Z0-9._-]{0,8}`), 1, 5, rapid.ID).Draw(t, "names")
		users := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab#:*'\"{}[],&! \\é-0")), 1, 5, -1), 1, 3)
		for _, name := range names {
			if name == "local" || name == "remote" {
				name = "other"
			}
			entry, err := access.NewEntry(identity.Submitter, name, "", users.Draw(t, "users"), nil, false, time.Time{}, name)
			if err != nil {
				t.Fatal(err)
			}
			if content, err = access.Append("f", content, entry); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			var err error
			if content, err = access.Remove("f", content, name); err != nil {
				t.Fatalf("%v\n%s", err, content)
			}
		}
	})
}

func TestFileIsTakenOverWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identities.yaml")
	var log strings.Builder
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	one := "identities:\n- {name: a, role: reader, tokenHash: " + some + "}\n"
	write(one, 0o640)
	f, err := access.Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	names := func() string {
		var list []string
		for _, e := range f.Identities().Entries() {
			list = append(list, e.Actor.Name)
		}
		return strings.Join(list, ",")
	}
	two := one + "- {name: b, role: reader, tokenHash: " + hash("2") + "}\n"
	for _, step := range []struct {
		text  string
		mode  os.FileMode
		names string
		wrong bool
	}{
		{two, 0o640, "a,b", false},
		{two + "- {name: c}\n", 0o640, "a,b", true},
		{one, 0o640, "a", false},
		{two, 0o666, "a", true},
		{two, 0o644, "a,b", false},
		{"", 0o640, "a,b", true},
		{"identities: []", 0o640, "", false},
	} {
		write(step.text, step.mode)
		f.Refresh()
		f.Refresh()
		if got := names(); got != step.names || (len(f.Warnings()) > 0) != step.wrong {
			t.Errorf("%q: %q, warnings %q; want %q", step.text, got, f.Warnings(), step.names)
		}
	}
	if got := strings.Count(log.String(), "those it had stay in force"); got != 3 {
		t.Errorf("%d complaints, want 3:\n%s", got, log.String())
	}
	write(two, 0o666)
	if _, err := access.Open(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "want chmod 0640") {
		t.Errorf("a file that everybody can write: %v", err)
	}
}
