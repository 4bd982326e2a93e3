package yarn

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/resource"
)

// Quantities are exact, rounded in the safe direction, and never out of range.
func TestQuantityIsExact(t *testing.T) {
	names := slices.Sorted(maps.Keys(units))
	rapid.Check(t, func(t *rapid.T) {
		unit := units[rapid.SampledFrom(names).Draw(t, "unit")]
		as := rapid.SampledFrom([]role{roleLimit, rolePromised, roleTaken}).Draw(t, "role")
		value := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 1e6), rapid.Just(int64(math.MaxInt32))).Draw(t, "value")

		want, rest := new(big.Int), new(big.Int)
		want.Mul(big.NewInt(max(value, 0)), new(big.Int).SetUint64(unit.num))
		want.QuoRem(want, new(big.Int).SetUint64(unit.den), rest)
		if as == roleTaken && rest.Sign() > 0 {
			want.Add(want, big.NewInt(1))
		}
		tooMuch := want.Cmp(big.NewInt(resource.MaxQuantity)) > 0
		word := as == roleLimit && (value == -1 || value == math.MaxInt32 || value == math.MaxInt64)
		if tooMuch || word {
			want.SetInt64(resource.MaxQuantity)
		}

		got, unlimited := as.quantity(value, unit)
		if got != want.Int64() {
			t.Errorf("%d is %d, want %v", value, got, want)
		}
		if unlimited != (as == roleLimit && (tooMuch || word)) {
			t.Errorf("%d is unlimited: %t", value, unlimited)
		}
	})
}

// A share is never more than the whole and never less than a smaller share. ResourceManagers round
// thirds and sevenths to 32 bits; nothing is lost by that.
func TestShareIsOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := resource.Vector{}.WithMemory(rapid.Int64Range(0, 1<<30).Draw(t, "MiB")<<20).
			WithCPU(rapid.Int64Range(0, 1e6).Draw(t, "cores")*1000).With("gpu", rapid.Int64Range(0, 1e4).Draw(t, "gpu"))
		a := rapid.Float64Range(-1, 101).Draw(t, "a")
		b := rapid.Float64Range(a, 101).Draw(t, "b")
		if less, more := share(a, whole), share(b, whole); !less.NotMoreThan(more) || !more.NotMoreThan(whole) {
			t.Errorf("%g%% of %v is %v, %g%% is %v", a, whole, less, b, more)
		}
		if all := share(100, whole); !all.Equal(whole) {
			t.Errorf("100%% of %v is %v", whole, all)
		}
		if none := share(0, whole); !none.IsZero() {
			t.Errorf("0%% of %v is %v", whole, none)
		}
		parts := rapid.Int64Range(1, 50).Draw(t, "parts")
		cores := rapid.Int64Range(0, 1000).Draw(t, "cores of a part")
		percent := float64(100 * float32(1/float32(parts)))
		if got := share(percent, resource.Vector{}.WithCPU(parts*cores*1000)); got.CPU() != cores*1000 {
			t.Errorf("%g%% of %d cores is %v, want %d", percent, parts*cores, got, cores)
		}
	})
}
