package status

import (
	"errors"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestTeamWithoutALeaderIsLeaderless(t *testing.T) {
	away := member{url: "http://a:1", err: errors.New("refused")}
	standby := member{url: "http://b:1", status: &bursarv1.StatusResponse{LeaderUrl: "http://a:1"}}
	leader := member{url: "http://c:1", status: &bursarv1.StatusResponse{IsLeader: true}}
	for name, c := range map[string]struct {
		team []member
		want bool
	}{
		"one alone":          {nil, false},
		"nobody answers":     {[]member{away, away}, false},
		"the leader is away": {[]member{away, standby, standby}, true},
		"one leads":          {[]member{away, standby, leader}, false},
	} {
		if got := leaderless(c.team); got != c.want {
			t.Errorf("%s: leaderless %v, want %v", name, got, c.want)
		}
	}
}
