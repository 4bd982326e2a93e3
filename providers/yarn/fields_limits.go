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
	autoCreated         bool
	largest             *resource.Vector // container
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

// maxUsers bounds how many users of one queue are kept.
const maxUsers = 10_000

// limitField reads one of these.
type limitField func(*reader, *applicationLimits) error

// limitFields are the keys of these.
var limitFields = map[string]limitField{
	// The CapacityScheduler.
	"maxApplicationsPerUser": limitFigure((*reader).count, func(l *applicationLimits) **int32 { return &l.perUser }),
	"maxParallelApps":        limitFigure((*reader).count, func(l *applicationLimits) **int32 { return &l.parallel }),
	"numContainers":          limitFigure((*reader).count, func(l *applicationLimits) **int32 { return &l.containers }),
	"AMResourceLimit":        limitVector(roleLimit, func(l *applicationLimits) **resource.Vector { return &l.amLimit }),
	"usedAMResource":         limitVector(roleTaken, func(l *applicationLimits) **resource.Vector { return &l.amUsed }),
	"userAMResourceLimit":    limitVector(roleLimit, func(l *applicationLimits) **resource.Vector { return &l.userAMLimit }),
	"userLimit":              limitFigure((*reader).percent, func(l *applicationLimits) **float64 { return &l.userPercent }),
	"userLimitFactor":        limitFigure((*reader).factor, func(l *applicationLimits) **float64 { return &l.factor }),
	"users":                  readUsers,
	"maximumAllocation":      limitVector(roleLimit, func(l *applicationLimits) **resource.Vector { return &l.largest }),
	// The FairScheduler.
	"maxContainerAllocation": limitVector(roleLimit, func(l *applicationLimits) **resource.Vector { return &l.largest }),
	"amMaxResources":         limitVector(roleLimit, func(l *applicationLimits) **resource.Vector { return &l.amLimit }),
	"amUsedResources":        limitVector(roleTaken, func(l *applicationLimits) **resource.Vector { return &l.amUsed }),
}

func limitFigure[T any](read func(*reader) (*T, error), at func(*applicationLimits) **T) limitField {
	return func(r *reader, l *applicationLimits) error {
		v, err := read(r)
		if v != nil {
			*at(l) = v
		}
		return err
	}
}

func limitVector(as role, at func(*applicationLimits) **resource.Vector) limitField {
	return limitFigure(func(r *reader) (*resource.Vector, error) { return r.vector(as) }, at)
}

func readUsers(r *reader, l *applicationLimits) error {
	return readList(r, "user", userField, func(u *userNode) error {
		if len(l.users) == maxUsers {
			return &AnswerError{Refusal: Excessive, Detail: "more than 10000 users in one queue"}
		}
		l.users = append(l.users, *u)
		return nil
	})
}

func userField(r *reader, u *userNode, key []byte) (err error) {
	switch string(key) {
	case "username":
		u.name, err = r.text()
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
			return r.countedPartition(len(u.usages))
		})
	default:
		err = r.json.Skip()
	}
	return err
}
