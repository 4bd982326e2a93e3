package linkis_test

import (
	"fmt"

	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/resource/linkis"
)

// The resource types of Linkis are views of one vector, each with its own JSON format.
func ExampleMarshal() {
	driver := resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)}
	text, _ := linkis.Marshal(driver, linkis.View(driver))
	fmt.Println(linkis.View(driver), string(text))
	// Output: LoadInstance {"memory":4294967296,"cores":2,"instances":1,"instance":1}
}
