package launches

import (
	"github.com/bursar/bursar/coordinator/ledger"
)

// held are the secrets of one attached call.
type held struct{ values map[string]string }

// Hold keeps the secrets of a caller's request, only in memory, while the caller waits for an
// answer. release forgets them.
func (l *Launcher) Hold(caller, requestID string, secrets map[string]string) (release func()) {
	if len(secrets) == 0 {
		return func() {}
	}
	key, mine := requestKey{caller, requestID}, &held{secrets}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets[key] = mine
	for _, t := range l.pending {
		if t.allocation.Caller == caller && t.allocation.RequestID == requestID {
			signal(t.secrets)
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.secrets[key] == mine { // a repeated call has brought them again
			delete(l.secrets, key)
		}
	}
}

// secretsOf returns the values of an allocation's secrets, and whether it has all of them.
func (l *Launcher) secretsOf(a *ledger.Allocation, names []string) (secrets map[string]string, complete bool) {
	if len(names) == 0 {
		return nil, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.secrets[requestKey{a.Caller, a.RequestID}]; held != nil {
		secrets = held.values
	}
	for _, name := range names {
		if _, here := secrets[name]; !here {
			return nil, false
		}
	}
	return secrets, true
}
