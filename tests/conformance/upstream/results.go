// Results in the form of the vectors: what is empty is left out.

package main

import (
	"slices"
	"sort"
	"strconv"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

type M = map[string]any

func sorted[T ~map[string]V, V any](m T) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

func strs(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

func put(m M, key string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case []any:
		if len(v) == 0 {
			return
		}
	case M:
		if len(v) == 0 {
			return
		}
	case nil:
		return
	}
	m[key] = value
}

// Extended resources come in the order of a map.
func reasonsOf(status *fwk.Status, pod *v1.Pod) []any {
	reasons := slices.Clone(status.Reasons())
	if status.Plugin() == "NodeResourcesFit" {
		rank := func(r string) string {
			for i, one := range []string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"} {
				if r == one {
					return strconv.Itoa(i)
				}
			}
			return "9" + r
		}
		sort.SliceStable(reasons, func(i, j int) bool { return rank(reasons[i]) < rank(reasons[j]) })
	}
	return strs(reasons)
}

func statusOf(status *fwk.Status, pod *v1.Pod) M {
	return M{"plugin": status.Plugin(), "code": int(status.Code()), "reasons": reasonsOf(status, pod)}
}
