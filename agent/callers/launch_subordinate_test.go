package callers

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The owner of a range of subordinate ids is charged for a reservation, and starts no engine in it.
// Nor does one of these ids in the owner's, or in another id's.
func TestASubordinateIDLaunchesItsOwnReservationsOnly(t *testing.T) {
	a := accounts(t, Settings{}, machinePasswd)
	caller := func(uid uint32, name, owner string) *socket.Caller {
		return socket.NewCaller(identity.Actor{Name: name + "@h1", Users: []string{name}, Owner: owner}, uid, name)
	}
	callers := map[string]*socket.Caller{"alice": caller(1000, "alice", ""), "100007": caller(100007, "100007", "alice"), "100008": caller(100008, "100008", "alice")}
	reservation := func(of, acting string) *bursarv1.Allocation {
		return &bursarv1.Allocation{Id: "a1", HostId: "h1", Caller: of + "@h1", ActingUser: acting, Labels: map[string]string{"user": "alice"}}
	}
	for of, r := range map[string]*bursarv1.Allocation{"alice": reservation("alice", ""), "100007": reservation("100007", "100007"), "100008": reservation("100008", "100008")} {
		for name, c := range callers {
			err := a.mayLaunch(c, &bursarv1.LaunchRequest{Id: "a1"}, r)
			if denied := connect.CodeOf(err) == connect.CodePermissionDenied; denied == (name == of) || name == of && err != nil {
				t.Errorf("%s launches in a reservation of %s: %v", name, of, err)
			}
		}
	}
	trusted := socket.NewCaller(identity.Actor{Name: "ecm@h1", Users: []string{"ecm"}, Anyone: true}, 999, "")
	if err := a.mayLaunch(trusted, &bursarv1.LaunchRequest{Id: "a1"}, reservation("100007", "100007")); err != nil {
		t.Errorf("a trusted caller: %v", err)
	}
}
