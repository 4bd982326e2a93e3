package machine

import "testing"

func TestReadOnlyIsWhatEnginesMayNotWriteTo(t *testing.T) {
	const mounts = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
30 22 254:16 / /data rw,relatime shared:9 master:2 - xfs /dev/vdb rw,noquota
31 22 254:32 / /broken rw,relatime - ext4 /dev/vdc ro
32 22 254:16 /a /fixed ro,relatime - xfs /dev/vdb rw
33 22 0:40 / /over ro - tmpfs t ro
34 33 0:41 / /over rw - tmpfs t rw
35 22 0:42 / /with\040blank\134 ro - tmpfs t rw
too short - x
`
	for path, want := range map[string]bool{
		"/":                      false,
		"/var/lib":               false,
		"/data":                  false,
		"/data/spark":            false,
		"/broken":                true,
		"/broken/deep/down":      true,
		"/brokenhearted":         false,
		"/fixed":                 true,
		"/over/there":            false,
		`/with blank\`:           true,
		`/with\040blank\134/sub`: false,
	} {
		if got := readOnlyIn([]byte(mounts), path); got != want {
			t.Errorf("%s: read-only %v, want %v", path, got, want)
		}
	}
	if !readOnlyIn(nil, "/data") {
		t.Error("without any mount it is known to be writable")
	}
}
