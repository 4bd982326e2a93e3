package report

import bursarv1 "github.com/bursar/bursar/proto/bursar/v1"

// ReadToken reads the identity token that the last agent of this state directory has got. Without
// it the coordinator compares only the places in which the agents run.
func (r *Reporter) ReadToken() {
	token, err := r.state.Token()
	if err != nil {
		r.log.Warn("the identity token of the state directory cannot be read: the coordinator knows this host only by its boot and place", "error", err)
	}
	r.token = token
}

// storeToken keeps the identity token of a registration for the next one. An agent that cannot
// store it goes on: it shows the token as long as it runs.
func (r *Reporter) storeToken(response *bursarv1.RegisterResponse) {
	token := response.GetIdentityToken()
	if len(token) == 0 {
		return // an older coordinator
	}
	r.token = token
	if err := r.state.SetToken(token); err != nil {
		r.log.Warn("the identity token of the state directory cannot be stored: after a restart the coordinator may take this agent for one on a copy of the directory, "+
			"until it has not heard of the host for a while", "error", err)
	}
}
