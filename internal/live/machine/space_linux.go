package machine

import (
	"syscall"

	"github.com/plimsoll/plimsoll/internal/units"
)

// space gives the size and the free part of the file system a folder is on.
func space(folder string) (size, free units.Bytes, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, 0, false
	}
	block := units.Bytes(s.Bsize)
	return units.Bytes(s.Blocks) * block, units.Bytes(s.Bavail) * block, true
}
