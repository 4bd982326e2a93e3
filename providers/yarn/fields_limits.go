package yarn

import "github.com/bursar/bursar/resource"

// applicationLimits are what a queue limits next to its resources: applications, their masters and
// users.
type applicationLimits struct {
	perUser, parallel *int32 // applications
	containers        *int32
	// Of the default partition. userAMLimit is that of the first user, if users have weights.
	amLimit, amUsed, userAMLimit *resource.Vector
	// userPercent is minimum-user-limit-percent; factor the user-limit-factor, -1: none.
	userPercent, factor *float64
	users               []userNode
	crowded             bool // it has more users than are kept, so none is
	autoCreated         bool
	largest             *resource.Vector // container
	// The FairScheduler's shares of the queue, by the queues that are active and of all.
	fairShare, steadyShare *resource.Vector
	policy                 string // of the FairScheduler: by what it divides the share
}

// userNode is a user in a queue of the CapacityScheduler, as it is read.
type userNode struct {
	name            string
	used, amUsed    *resource.Vector // of the default partition
	pending, active *int32
	weight          *float64
	isActive        bool
	usages          []usage
}

const (
	// maxUsers bounds how many users of one queue are kept.
	maxUsers = 10_000
	// maxAllUsers bounds how many are kept of all queues, once more for each partition in which
	// they have something: some 200 MB.
	maxAllUsers = 200_000
)

// limitFields are the keys of these.
var limitFields = map[string]nodeField{
	// The CapacityScheduler.
	"maxApplicationsPerUser": number(func(n *node) **int32 { return &n.perUser }),
	"maxParallelApps":        number(func(n *node) **int32 { return &n.parallel }),
	"numContainers":          number(func(n *node) **int32 { return &n.containers }),
	"AMResourceLimit":        vector(roleLimit, func(n *node) **resource.Vector { return &n.amLimit }),
	"usedAMResource":         vector(roleTaken, func(n *node) **resource.Vector { return &n.amUsed }),
	"userAMResourceLimit":    vector(roleLimit, func(n *node) **resource.Vector { return &n.userAMLimit }),
	"userLimit":              figure((*reader).percent, func(n *node) **float64 { return &n.userPercent }),
	"userLimitFactor":        figure((*reader).factor, func(n *node) **float64 { return &n.factor }),
	"users":                  readUsers,
	"maximumAllocation":      vector(roleLimit, func(n *node) **resource.Vector { return &n.largest }),
	// The FairScheduler.
	"maxContainerAllocation": vector(roleLimit, func(n *node) **resource.Vector { return &n.largest }),
	"amMaxResources":         vector(roleLimit, func(n *node) **resource.Vector { return &n.amLimit }),
	"amUsedResources":        vector(roleTaken, func(n *node) **resource.Vector { return &n.amUsed }),
	"fairResources":          vector(rolePromised, func(n *node) **resource.Vector { return &n.fairShare }),
	"schedulingPolicy":       word(func(n *node) *string { return &n.policy }),
	"steadyFairResources":    vector(rolePromised, func(n *node) **resource.Vector { return &n.steadyShare }),
}

// readUsers reads the users of a queue. What a user may have there cannot be told if not all are
// kept.
func readUsers(r *reader, n *node) error {
	before := r.users
	return readList(r, "user", userField, func(u *userNode) error {
		if n.crowded {
			return nil
		}
		r.users += 1 + len(u.usages)
		if len(n.users) == maxUsers || r.users > maxAllUsers {
			n.crowded, n.users, r.users = true, nil, before
			return nil
		}
		n.users = append(n.users, *u)
		return nil
	})
}

func userField(r *reader, u *userNode, key []byte) (err error) {
	switch string(key) {
	case "username":
		err = chosen(r, &u.name)
	case "resourcesUsed":
		u.used, err = r.vector(roleTaken)
	case "AMResourceUsed":
		u.amUsed, err = r.vector(roleTaken)
	case "numPendingApplications":
		u.pending, err = r.count()
	case "numActiveApplications":
		u.active, err = r.count()
	case "userWeight":
		u.weight, err = r.percent()
	case "isActive":
		u.isActive, err = r.boolean()
	case "resources":
		err = readList(r, "resourceUsagesByPartition", usageField, func(of *usage) error {
			u.usages = append(u.usages, *of)
			return fewPartitions(len(u.usages))
		})
	default:
		err = r.skip()
	}
	return err
}
