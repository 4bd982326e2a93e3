package yarn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/spnego"

	"github.com/bursar/bursar/internal/credential"
)

// kerberos authenticates with tickets of a KDC. The library's goroutine renews the ticket-granting
// ticket before it expires; if that fails, the library gets a new one with the keytab. The
// library's HTTP client is not used: it retries without end if a server rejects every token, and it
// is not safe for concurrent use.
type kerberos struct {
	service string // may contain _HOST
	files   *credential.FileSet[kerberosFiles]

	// turn holds one token while no ticket is being made. The library does not accept a context. So
	// each caller waits with its own context; if that ends, the request to the KDC continues in the
	// background, and the next caller gets its ticket.
	turn   chan struct{}
	made   *kerberosClient // guarded by turn
	closed sync.Once
}

// kerberosFiles is the content of the keytab and krb5.conf.
type kerberosFiles struct {
	config      *config.Config
	keytab      *keytab.Keytab
	name, realm string // of the principal
}

// kerberosClient is the library's client and the files that it was made from.
type kerberosClient struct {
	of     *kerberosFiles
	client *client.Client
}

func openKerberos(s settings, now func() time.Time) (authenticator, error) {
	conf := credential.File{Field: settingKrb5Conf, Path: s.krb5Conf, Want: "a krb5.conf with the realm of the principal and its KDCs"}
	keys := credential.File{Field: settingKeytab, Path: s.keytab, Secret: true, Want: "a keytab with a key of the principal"}
	files, err := credential.OpenFileSet([]credential.File{conf, keys}, credential.Options{Now: now}, func(contents [][]byte) (kerberosFiles, error) {
		return readKerberosFiles(s.principal, conf, keys, contents)
	})
	if err != nil {
		return nil, fileSetting(err, nil)
	}
	k := &kerberos{service: s.servicePrincipal, files: files, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k, nil
}

// readKerberosFiles parses both files and checks that they fit the principal.
func readKerberosFiles(principal string, conf, keys credential.File, contents [][]byte) (kerberosFiles, error) {
	var read kerberosFiles
	var err error
	read.config, err = config.NewFromString(string(contents[0]))
	// an unsupported directive such as includedir is harmless
	if _, unsupported := errors.AsType[config.UnsupportedDirective](err); err != nil && !unsupported {
		return read, conf.Wrong("cannot be read: "+err.Error(), err)
	}
	// Only TCP: over UDP, a KDC that does not answer is noticed only after 5 s, and large tickets
	// do not fit.
	read.config.LibDefaults.UDPPreferenceLimit = 1
	read.name, read.realm, _ = strings.Cut(principal, "@")
	if read.realm == "" {
		if read.realm = read.config.LibDefaults.DefaultRealm; read.realm == "" {
			return read, conf.Wrong("has no default_realm, and the principal names no realm", nil)
		}
	}
	if read.keytab, err = parseKeytab(contents[1]); err != nil {
		return read, keys.Wrong("is no keytab", err)
	}
	var others []string
	for _, entry := range read.keytab.Entries {
		own := strings.Join(entry.Principal.Components, "/") + "@" + entry.Principal.Realm
		if own == read.name+"@"+read.realm {
			return read, nil
		}
		if !slices.Contains(others, own) && len(others) < 8 {
			others = append(others, own)
		}
	}
	return read, keys.Wrong(fmt.Sprintf("has no key of %s@%s, but of %q", read.name, read.realm, others), nil)
}

// parseKeytab recovers from the library's panics: it reads beyond the end of some truncated files.
func parseKeytab(content []byte) (keys *keytab.Keytab, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it breaks off")
		}
	}()
	keys = keytab.New()
	return keys, keys.Unmarshal(content)
}

func (k *kerberos) transport(base http.RoundTripper, at address) http.RoundTripper {
	return negotiate{base: base, tickets: k, service: strings.ReplaceAll(k.service, hostPattern, at.host())}
}

// hide returns the text unchanged: a token is valid only once.
func (*kerberos) hide(text string) string { return text }

// errClosed is the error after close.
var errClosed = errors.New("the provider is closed")

// token makes a token. The error is a *KerberosError, or that of the context.
func (k *kerberos) token(ctx context.Context, service string) (string, error) {
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for a ticket: %w", ctx.Err())
	case _, open := <-k.turn:
		if !open {
			return "", errClosed
		}
	}
	type result struct {
		token string
		err   error
	}
	done := make(chan result, 1)
	var fallen faults
	go func() { // holds the turn, so close waits for it
		defer func() { k.turn <- struct{}{} }()
		defer fallen.catch(func() { done <- result{} })
		token, err := k.make(service)
		done <- result{token, err}
	}()
	select {
	case <-ctx.Done():
		return "", &KerberosError{Setting: settingKrb5Conf, Advice: "the KDC takes too long", Err: ctx.Err()}
	case made := <-done:
		fallen.rethrow()
		return made.token, made.err
	}
}

// make makes a token; the caller holds the turn. For each KDC, the library allows 5 s to connect
// and 5 s to answer.
func (k *kerberos) make(service string) (string, error) {
	files := k.files.Get()
	if k.made == nil || k.made.of != files {
		k.forget()
		k.made = &kerberosClient{of: files, client: client.NewWithKeytab(files.name, files.realm, files.keytab, files.config, client.DisablePAFXFAST(true))}
	}
	request := &http.Request{Header: http.Header{}}
	if err := spnego.SetSPNEGOHeader(k.made.client, request, service); err != nil {
		return "", kerberosError(err, service)
	}
	return strings.TrimPrefix(request.Header.Get("Authorization"), "Negotiate "), nil
}

// forget destroys the client and stops its goroutine; the caller holds the turn.
func (k *kerberos) forget() {
	if k.made != nil {
		k.made.client.Destroy()
		k.made = nil
	}
}

// close waits until no ticket is being made, which is bounded, and destroys all tickets.
func (k *kerberos) close() {
	k.closed.Do(func() {
		<-k.turn
		k.forget()
		close(k.turn)
	})
}
