package sockdiag

import (
	"errors"
	"os/user"
	"testing"
)

// The number of a uid without an account may be the name of another account.
func TestUserWithoutANameIsTakenForNoAccount(t *testing.T) {
	byUID := func(uid string) (*user.User, error) {
		if uid == "1000" {
			return &user.User{Username: "alice"}, nil
		}
		return nil, user.UnknownUserIdError(1)
	}
	byName := func(name string) (*user.User, error) {
		switch name {
		case "1004":
			return &user.User{Username: "1004", Uid: "61004"}, nil
		case "1005":
			return nil, errors.New("cannot be read")
		}
		return nil, user.UnknownUserError(name)
	}
	for number, want := range map[string]string{"1000": "alice", "1003": "1003", "1004": "uid:1004", "1005": "uid:1005"} {
		if got := userName(number, byUID, byName); got != want {
			t.Errorf("%s is %q, want %q", number, got, want)
		}
	}
}
