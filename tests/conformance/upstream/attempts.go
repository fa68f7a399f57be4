// Modes sampled and gang: attempts of the whole scheduler, for pods one by one and for pod groups.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sort"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type attempts struct {
	*queueWorld
	batching bool
	made     int
	failed   M
	evicted  []string
}

func unexported[T any](q *queueWorld, field string) *T {
	value := reflect.ValueOf(q.sched).Elem().FieldByName(field)
	return (*T)(unsafe.Pointer(value.UnsafeAddr()))
}

func newAttempts(ctx context.Context, scenario M) *attempts {
	a := &attempts{queueWorld: newQueueWorld(ctx, scenario)}
	a.mode = scenario["mode"].(string)
	a.batching, _ = scenario["batching"].(bool)
	a.snapshot = *unexported[*internalcache.Snapshot](a.queueWorld, "nodeInfoSnapshot")
	informers := a.factory.Core().V1()
	a.client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch act := action.(type) {
		case clienttesting.CreateActionImpl:
			binding := act.GetObject().(*v1.Binding)
			bound := a.known[act.GetNamespace()+"/"+binding.Name].DeepCopy()
			bound.Spec.NodeName = binding.Target.Name
			a.queueWorld.object(bound)
			return true, bound, nil
		case clienttesting.DeleteActionImpl:
			k := act.GetNamespace() + "/" + act.GetName()
			a.evicted = append(a.evicted, k)
			a.forget(k)
			return true, nil, nil
		case clienttesting.PatchActionImpl:
			old, err := informers.Pods().Lister().Pods(act.GetNamespace()).Get(act.GetName())
			if err != nil {
				return true, nil, err
			}
			made := merged(old, act.GetPatch(), &v1.Pod{})
			if !slices.Contains(a.evicted, key(made)) {
				a.queueWorld.object(made)
			}
			return true, made, nil
		}
		return false, nil, nil
	})
	a.writes = newWrites(M{})
	a.client.PrependReactor("*", "resourceclaims", a.writeClaim)
	a.client.PrependReactor("patch", "podgroups", func(action clienttesting.Action) (bool, runtime.Object, error) {
		act := action.(clienttesting.PatchActionImpl)
		old := a.podGroup(act.GetNamespace(), act.GetName()).DeepCopy()
		old.Status.Conditions = nil // as in the recorded vectors, a condition has the fields of its last patch alone
		made := merged(old, act.GetPatch(), &podGroup{})
		a.put(made)
		return true, made, nil
	})
	handle := a.sched.FailureHandler
	a.sched.FailureHandler = func(ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		a.failed[key(info.Pod)] = M{"message": status.Message()}
		handle(ctx, f, info, status, nominating, start)
	}
	return a
}

func merged[T any](old *T, patch []byte, empty *T) *T {
	before, err := json.Marshal(old)
	check(err)
	after, err := strategicpatch.StrategicMergePatch(before, patch, empty)
	check(err)
	made := new(T)
	check(json.Unmarshal(after, made))
	return made
}

func (a *attempts) podGroup(namespace, name string) *podGroup {
	found, _ := podGroups(a.factory).PodGroups(namespace).Get(name)
	return found
}

func (a *attempts) forget(k string) bool {
	pod := a.known[k]
	if pod == nil {
		return false
	}
	delete(a.known, k)
	waits := pod.Spec.NodeName == ""
	a.remove(pod)
	if waits {
		a.sched.SchedulingQueue.DeleteNominatedPodIfExists(pod)
	}
	return true
}

// A pod that waits from the beginning is nominated at most.
func (a *attempts) object(obj runtime.Object) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName != "" {
		a.queueWorld.object(obj)
		return
	}
	a.namespace(pod.Namespace, nil)
	if pod.UID == "" {
		pod.UID = types.UID(key(pod))
	}
	a.known[key(pod)] = pod
	a.factory.known[reflect.TypeOf(pod)].GetIndexer().Add(pod)
	if pod.Status.NominatedNodeName != "" {
		info, _ := framework.NewPodInfo(pod)
		a.sched.SchedulingQueue.AddNominatedPod(a.logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop})
	}
}

func (a *attempts) next() int { return *unexported[int](a.queueWorld, "nextStartNodeIndex") }

func (a *attempts) schedule(step M) M {
	pod := decodePod(step["pod"])
	result := M{"start": a.next()}
	a.namespace(pod.Namespace, nil)
	check(a.cache.UpdateSnapshot(a.logger, a.snapshot))
	nodes, err := a.snapshot.List()
	check(err)
	order := []string{}
	for _, n := range nodes {
		order = append(order, n.Node().Name)
	}
	if a.mode == "gang" { // its vectors give the digest of the order only
		a.lastOrder = order
	}
	if a.lastOrder == nil || !slices.Equal(order, a.lastOrder) {
		result["order"] = strs(order)
		a.lastOrder = order
	}
	fw := a.sched.Profiles[pod.Spec.SchedulerName]
	info := &framework.QueuedPodInfo{}
	if a.batching {
		a.queueWorld.object(pod)
		if len(a.sched.SchedulingQueue.PodsInActiveQ()) == 0 {
			panic("the pod is not in the active queue")
		}
		info = popped(a.logger, a.sched.SchedulingQueue)
	} else {
		info.PodInfo, _ = framework.NewPodInfo(pod)
	}
	found, err := a.sched.SchedulePod(a.ctx, fw, framework.NewCycleState(), info)
	result["next"] = a.next()
	if a.batching {
		a.sched.SchedulingQueue.Done(pod.UID)
		a.forget(key(pod))
	}
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit):
		result["fitError"] = unfit.Error()
		result["evaluated"] = unfit.Diagnosis.NodeToStatus.Len()
	case err != nil:
		result["error"] = err.Error()
	default:
		result["chosen"] = found.SuggestedHost
		result["evaluated"] = found.EvaluatedNodes
		result["feasibleCount"] = found.FeasibleNodes
		placed := pod.DeepCopy()
		placed.Spec.NodeName = found.SuggestedHost
		a.queueWorld.object(placed)
	}
	return result
}

// ---- pod groups

// mostAttempts is how often a group is tried in one step, as in the recorded vectors.
const mostAttempts = 4

func (a *attempts) group(step M) M {
	group := decode(step["object"]).(*podGroup)
	if a.podGroup(group.Namespace, group.Name) == nil {
		a.put(group)
	}
	members := []string{}
	for _, one := range step["members"].([]any) {
		pod := decodePod(one)
		a.made++
		pod.CreationTimestamp = metav1.NewTime(time.Unix(int64(a.made), 0))
		a.clock.Step(time.Nanosecond) // members are tried in the order in which they came
		a.queueWorld.object(pod)
		members = append(members, key(pod))
	}
	queue := a.sched.SchedulingQueue
	gated := []string{}
	for _, pod := range queue.UnschedulablePods() {
		if info := queued(queue, pod); info.Gated() {
			gated = append(gated, key(pod))
		}
	}
	sort.Strings(gated)
	tried := []any{}
	for len(tried) < mostAttempts {
		waiting := map[string]*v1.Pod{}
		for _, k := range members {
			if pod := a.known[k]; pod != nil && pod.Spec.NodeName == "" {
				waiting[k] = pod
			}
		}
		queue.Activate(a.logger, waiting)
		if len(queue.PodsInActiveQ()) == 0 {
			break
		}
		one := a.attempt(group, members)
		tried = append(tried, one)
		if !goesOn(one) {
			break
		}
	}
	for _, k := range members {
		if pod := a.known[k]; pod != nil && pod.Spec.NodeName == "" {
			a.forget(k)
		}
	}
	result := M{}
	put(result, "gated", strs(gated))
	put(result, "attempts", tried)
	return result
}

// goesOn tells whether something has changed that the next attempt sees: pods were evicted, or others nominated.
func goesOn(attempt M) bool {
	failed, _ := attempt["failed"].(M)
	for _, one := range failed {
		if one.(M)["nominated"] != nil {
			return true
		}
	}
	return attempt["evicted"] != nil
}

func (a *attempts) attempt(group *podGroup, members []string) M {
	waited := []string{}
	for _, k := range members {
		if pod := a.known[k]; pod != nil && pod.Spec.NodeName == "" {
			waited = append(waited, k)
		}
	}
	condition := func() metav1.Condition {
		found := meta.FindStatusCondition(a.podGroup(group.Namespace, group.Name).Status.Conditions, groupScheduled)
		if found == nil {
			return metav1.Condition{}
		}
		return *found
	}
	before := condition()
	a.failed, a.evicted = M{}, nil
	a.sched.ScheduleOne(a.ctx)
	placed := M{}
	for _, k := range waited {
		if pod := a.known[k]; pod != nil && pod.Spec.NodeName != "" {
			placed[k] = pod.Spec.NodeName
		}
	}
	nodes, err := a.factory.Core().V1().Nodes().Lister().List(labels.Everything())
	check(err)
	for _, node := range nodes {
		for _, info := range a.sched.SchedulingQueue.NominatedPodsForNode(node.Name) {
			if one, ok := a.failed[key(info.GetPod())].(M); ok {
				one["nominated"] = node.Name
			}
		}
	}
	sort.Strings(a.evicted)
	after := condition()
	written := M{}
	if after.Status != before.Status || after.Reason != before.Reason || after.Message != before.Message {
		written = M{"status": "", "reason": ""}
		if after.Status != before.Status {
			written["status"] = string(after.Status)
		}
		if after.Reason != before.Reason {
			written["reason"] = after.Reason
		}
		if after.Message != before.Message {
			put(written, "message", after.Message)
		}
	}
	result := M{"next": a.next()}
	put(result, "placed", placed)
	put(result, "failed", a.failed)
	put(result, "evicted", strs(a.evicted))
	put(result, "condition", written)
	return result
}

func (a *attempts) step(step M) M {
	found := M{}
	switch step["op"] {
	case "schedule":
		found = a.schedule(step)
	case "group":
		found = a.group(step)
	case "removePod":
		if !a.forget(step["namespace"].(string) + "/" + step["name"].(string)) {
			found["absent"] = true
		}
	default:
		found = a.queueWorld.step(step)
	}
	found["op"] = step["op"]
	return found
}

func runAttempts(ctx context.Context, scenario M, result M) {
	a := newAttempts(ctx, scenario)
	a.namespace("default", nil)
	for _, o := range objectsOf(scenario) {
		a.object(o)
	}
	steps := []any{}
	defer func() { result["steps"] = steps }()
	for _, s := range scenario["steps"].([]any) {
		a.clock.Step(time.Millisecond)
		steps = append(steps, a.step(s.(M)))
	}
}
