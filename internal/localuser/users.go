package localuser

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/subuid"
)

// User is a uid as the machine knows it.
type User struct {
	// Name is that of its account. A uid without an account has its digits for a name. If these are
	// another account's name, or the machine cannot be asked, its name is UIDPrefix and the digits:
	// a text that no account has for a name.
	Name string
	// OwnDigits reports whether the digits of the uid are no other account's name.
	OwnDigits bool
	// HasAccount reports whether Name is an account's.
	HasAccount bool
	// Owner is the user who is charged for the uid; empty: the uid itself.
	Owner string
	// hadAccount reports whether the uid has an account, or had one when it was looked up before.
	hadAccount bool
}

// UIDPrefix begins the name of a uid whose digits may be the name of another account.
const UIDPrefix = "uid:"

// UnsureError says that a uid is in a range of subordinate ids, and that nobody can say now whether
// it is an account of its own. Neither the owner of the range nor the uid may be charged then.
type UnsureError struct {
	UID uint32
	// Owner is the owner of the range.
	Owner string
	// Err is the error of the lookup.
	Err error
}

func (e *UnsureError) Error() string {
	return fmt.Sprintf("uid %d is in a range of subordinate ids of %s (%s), and whether it is an account of its own cannot be told now: %v: try again",
		e.UID, e.Owner, subuid.Path, e.Err)
}

func (e *UnsureError) Unwrap() error { return e.Err }

// errPace is the error of a lookup of a subordinate id if others of its range have used up the
// share of the range.
var errPace = errors.New("the ids of this range are looked up too often")

// LookupsAtOnce bounds how many programs may look up users at a time. Each is a process, and a
// thread of this one.
const LookupsAtOnce = 16

// ThisMachine is the source that asks this machine.
func ThisMachine() Source {
	users := osuser.Users{Pace: rate.NewLimiter(Rate, Burst), Slots: make(chan struct{}, LookupsAtOnce)}
	return Source{NameOf: users.NameOf, NameOfFile: users.NameOfFile, UIDOf: users.UIDOf, Charged: subuid.New(subuid.Path, time.Now).Charged}
}

// Source answers questions about this machine. Lookups return osuser.ErrNoUser if there is no such
// account; all other errors say that the answer is not known.
type Source struct {
	// NameOf is the name of a uid. It may take seconds.
	NameOf func(ctx context.Context, uid uint32) (string, error)
	// NameOfFile is NameOf for accounts in a file of this machine: it never takes long.
	NameOfFile func(uid uint32) (string, error)
	// UIDOf is the uid of a name. It may take seconds.
	UIDOf func(ctx context.Context, name string) (uint32, error)
	// Charged is subuid.File.Charged.
	Charged func(uid uint32, hasName bool, names subuid.Names) (user string, other bool, err error)
}

const (
	// KnownFor is how long an answer is believed: users are renamed rarely.
	KnownFor = time.Minute
	// UnsureFor is the same if the machine's name service did not answer.
	UnsureFor = 5 * time.Second
	// PacedFor is the same if it was not asked, because the ids of a range are looked up too often.
	PacedFor = time.Second
	// MostUsers is how many users are remembered: a user with a range of subordinate uids can be
	// many.
	MostUsers = 1024
	// Rate bounds how often the name service is asked, in lookups a second: a user of user
	// namespaces has some ten thousand uids, none of which is in a file.
	Rate = 20
	// Burst is how many lookups may come at once.
	Burst = 200
	// ownerPart is the part of that, 1/ownerPart, which the subordinate ids of one user may take.
	// One of them takes up to lookupsEach: its name, and whether its digits are a name.
	ownerPart   = 2
	lookupsEach = 2
	// rangeFor is how long the range of a uid without a known name is believed.
	rangeFor = time.Second
)

// Users remembers the users of a machine. Make it with New.
type Users struct {
	Source

	options Options

	mu    sync.Mutex
	known map[uint32]known // guarded by mu
	// lookups are the users that are being looked up; a channel is closed when that is done.
	// Guarded by mu.
	lookups map[uint32]chan struct{}
	// ranges are the accounts of connections of unknown users, as of rangesRead. Guarded by mu.
	ranges     map[uint32]string
	rangesRead time.Time
	// paces bound how often the ids of an owner are looked up, by owner. Guarded by mu.
	paces map[string]*rate.Limiter
	// owners are the owners of ranges that are numbers. Guarded by mu.
	owners map[ownerKey]ownerAnswer
}

// known is a user as last looked up.
type known struct {
	user *User        // nil: never known
	err  *UnsureError // if user is nil
	read time.Time
}

// Options depend on the rights of users. Each may be nil: of no uid.
type Options struct {
	// Keep reports whether a user must not be forgotten because of others.
	Keep func(uid uint32, user *User) bool
	// Digits reports whether User.OwnDigits matters for an account.
	Digits func(uid uint32) bool
}

// New returns the users of a machine.
func New(source Source, options Options) *Users {
	return &Users{
		Source: source, options: options, known: make(map[uint32]known), lookups: make(map[uint32]chan struct{}),
		ranges: make(map[uint32]string), paces: make(map[string]*rate.Limiter), owners: make(map[ownerKey]ownerAnswer),
	}
}

// Forget has every user looked up again.
func (u *Users) Forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.known)
}

// Of returns the user of a uid, which must not be changed. It is another pointer only after a
// lookup. The only error is *UnsureError.
func (u *Users) Of(ctx context.Context, uid uint32) (*User, error) {
	for {
		u.mu.Lock()
		before, seen := u.known[uid]
		other := u.lookups[uid]
		switch {
		case seen && (other != nil || time.Since(before.read) < KnownFor):
			u.mu.Unlock()
			return before.result()
		case other == nil:
			done := make(chan struct{})
			u.lookups[uid] = done
			u.mu.Unlock()
			return u.lookUp(ctx, uid, before, done)
		}
		u.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done(): // the call has ended
			return u.withoutLookup(uid, context.Cause(ctx))
		}
	}
}

func (k known) result() (*User, error) {
	if k.user == nil {
		return nil, k.err
	}
	return k.user, nil
}

// lookUp looks up a user, who was known as before, and closes done.
func (u *Users) lookUp(ctx context.Context, uid uint32, before known, done chan<- struct{}) (*User, error) {
	found, believed := u.find(context.WithoutCancel(ctx), uid, before.user) // without the lock: it may take seconds
	if believed < KnownFor && before.user != nil {
		found = known{user: before.user}
	}
	found.read = time.Now().Add(believed - KnownFor)
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.known) >= MostUsers {
		u.forgetLocked()
	}
	u.known[uid] = found
	delete(u.lookups, uid)
	close(done)
	return found.result()
}

// forgetLocked forgets uids without accounts. Accounts are few, and must not be forgotten because
// of subordinate ids; if they are many, they are forgotten, too.
func (u *Users) forgetLocked() {
	forget := func(all bool) {
		maps.DeleteFunc(u.known, func(uid uint32, k known) bool {
			return k.user == nil || (all || !k.user.hadAccount) && (u.options.Keep == nil || !u.options.Keep(uid, k.user))
		})
	}
	forget(false)
	if len(u.known) >= MostUsers {
		forget(true)
	}
}

// find looks up a uid, which was known as before, and says for how long to believe it: less than
// KnownFor if the machine could not be asked.
func (u *Users) find(ctx context.Context, uid uint32, before *User) (found known, believed time.Duration) {
	owner, inRange, _ := u.Charged(uid, false, subuid.Names{}) // without names it does not fail
	if inRange && !u.mayLookUp(uid, owner, before) {
		return known{err: &UnsureError{uid, owner, errPace}}, PacedFor
	}
	user := &User{}
	name, err := u.NameOf(ctx, uid)
	if errors.Is(err, osuser.ErrNoUser) {
		name, err = "", nil
	}
	switch {
	case err == nil && name != "":
		*user = User{Name: name, HasAccount: true, hadAccount: true}
		if u.options.Digits == nil || !u.options.Digits(uid) {
			return known{user: user}, KnownFor
		}
	case err == nil:
		// An account that has gone, or of a directory that is away, never becomes a subordinate id.
		user.hadAccount = before != nil && before.hadAccount
	case inRange:
		return known{err: &UnsureError{uid, owner, err}}, UnsureFor
	default:
		user.Name = UIDPrefix + digits(uid)
		return known{user: user}, UnsureFor
	}
	if believed = u.findDigits(ctx, uid, user); !inRange || user.hadAccount {
		return known{user: user}, believed
	}
	if user.Owner, _, err = u.Charged(uid, false, u.names(ctx)); err != nil {
		return known{err: &UnsureError{uid, owner, err}}, UnsureFor
	}
	return known{user: user}, believed
}

// findDigits looks up whether the digits of a uid are the name of another account, and names a uid
// without an account. It returns how long to believe it.
func (u *Users) findDigits(ctx context.Context, uid uint32, user *User) (believed time.Duration) {
	other, err := u.UIDOf(ctx, digits(uid))
	free := errors.Is(err, osuser.ErrNoUser)
	user.OwnDigits = free || err == nil && other == uid
	switch {
	case user.HasAccount:
	case user.OwnDigits:
		user.Name = digits(uid)
	default:
		user.Name = UIDPrefix + digits(uid)
	}
	if !free && err != nil {
		return UnsureFor
	}
	return KnownFor
}

// mayLookUp reports whether the name service may be asked for an id in a range. All ids of one
// owner share one pace, so that they leave lookups for other users. Accounts are not held up by it,
// as far as they are known.
func (u *Users) mayLookUp(uid uint32, owner string, before *User) bool {
	if before != nil && before.HasAccount {
		return true
	}
	if name, err := u.NameOfFile(uid); err == nil && name != "" {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	pace := u.paces[owner]
	if pace == nil {
		if len(u.paces) >= MostUsers {
			clear(u.paces)
		}
		pace = rate.NewLimiter(Rate/ownerPart, Burst/ownerPart)
		u.paces[owner] = pace
	}
	return pace.AllowN(time.Now(), lookupsEach)
}

// errNotYet is why a user is not known without a lookup.
var errNotYet = errors.New("it was not looked up yet")

// WithoutLookup returns a user as far as they are known without a lookup that may take long. The
// only error is *UnsureError.
func (u *Users) WithoutLookup(uid uint32) (*User, error) { return u.withoutLookup(uid, errNotYet) }

func (u *Users) withoutLookup(uid uint32, cause error) (*User, error) {
	u.mu.Lock()
	before, seen := u.known[uid]
	u.mu.Unlock()
	if seen {
		return before.result()
	}
	if name, err := u.NameOfFile(uid); err == nil && name != "" {
		return &User{Name: name, HasAccount: true}, nil
	}
	if owner, inRange, _ := u.Charged(uid, false, subuid.Names{}); inRange {
		return nil, &UnsureError{uid, owner, cause}
	}
	return &User{Name: UIDPrefix + digits(uid)}, nil
}

// Known returns a user who was looked up; nil: not yet.
func (u *Users) Known(uid uint32) *User {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known[uid].user
}

// Account is the account of a connection of a uid before its first request. It looks up no name: a
// user with a range of subordinate uids can come as another one each time. All ids of a range that
// are not known yet count together, and not on its owner: one of them may be an account.
func (u *Users) Account(uid uint32) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if user := u.known[uid].user; user != nil {
		return user.Account()
	}
	if now := time.Now(); len(u.ranges) >= MostUsers || now.Sub(u.rangesRead) >= rangeFor {
		clear(u.ranges)
		u.rangesRead = now
	}
	account, seen := u.ranges[uid]
	if !seen {
		account = digits(uid)
		if owner, inRange, _ := u.Charged(uid, false, subuid.Names{}); inRange {
			account = OfRange(owner)
		}
		u.ranges[uid] = account
	}
	return account
}

// OfRange is the account of ids in a range of an owner that are not known yet. No user has such a
// name, because of the colon.
func OfRange(owner string) string { return "range:" + owner }
