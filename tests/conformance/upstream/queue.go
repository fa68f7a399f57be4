// Mode queue: the scheduling queue behind the event handlers, with a clock that stands still.

package main

import (
	"context"
	"reflect"
	"sort"
	"time"
	_ "unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
)

//go:linkname flushBackoff k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoff(p *internalqueue.PriorityQueue, logger klog.Logger)

type queueWorld struct {
	*world
	sched    *scheduler.Scheduler
	clock    *clocktesting.FakeClock
	inFlight []*framework.QueuedPodInfo
	known    map[string]*v1.Pod
	pops     bool
}

func newQueueWorld(ctx context.Context, scenario M) *queueWorld {
	w := &world{ctx: ctx, logger: klog.FromContext(ctx), namespaces: sets.New[string](), pods: map[string]*v1.Pod{}, mode: "queue"}
	q := &queueWorld{world: w, known: map[string]*v1.Pod{}}
	cfg := configurationOf(scenario)
	parallelism := int32(1) // results are those of one goroutine
	if scenario["mode"] == "timed" {
		parallelism = cfg.Parallelism
	}
	w.client = fake.NewClientset()
	w.factory = &factory{SharedInformerFactory: informers.NewSharedInformerFactory(w.client, 0), client: w.client, known: map[reflect.Type]*syncInformer{}}
	q.clock = clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var err error
	q.sched, err = scheduler.New(ctx, w.client, w.factory, nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(1000000) },
		scheduler.WithComponentConfigVersion(cfg.TypeMeta.APIVersion), scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithParallelism(parallelism), scheduler.WithClock(q.clock),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore), scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds), scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds))
	check(err)
	w.cache = q.sched.Cache
	w.factory.Core().V1().Nodes().Informer()
	w.factory.Core().V1().Pods().Informer()
	w.factory.Core().V1().Namespaces().Informer()
	return q
}

func (q *queueWorld) object(obj runtime.Object) {
	switch o := obj.(type) {
	case *v1.Namespace:
		q.world.object(o)
		return
	case *v1.Pod:
		if o.UID == "" {
			o.UID = types.UID(key(o))
		}
		if o.Spec.SchedulerName == "" {
			o.Spec.SchedulerName = "default-scheduler"
		}
		q.known[key(o)] = o
	}
	if _, isPod := obj.(*v1.Pod); isPod {
		q.put(obj)
		return
	}
	if _, isNode := obj.(*v1.Node); isNode {
		q.put(obj)
		return
	}
	q.world.object(obj)
}

func (q *queueWorld) flying(step M) (int, *framework.QueuedPodInfo) {
	k := step["namespace"].(string) + "/" + step["name"].(string)
	for i, one := range q.inFlight {
		if key(one.Pod) == k {
			return i, one
		}
	}
	return -1, nil
}

func (q *queueWorld) giveBack(step M, plugins, pending sets.Set[string]) bool {
	i, info := q.flying(step)
	if info == nil {
		return false
	}
	q.inFlight = append(q.inFlight[:i:i], q.inFlight[i+1:]...)
	info.ClearRejectorPlugins()
	info.UnschedulablePlugins, info.PendingPlugins = plugins, pending
	queue := q.sched.SchedulingQueue
	cached, err := q.factory.Core().V1().Pods().Lister().Pods(info.Pod.Namespace).Get(info.Pod.Name)
	if err != nil || cached.Spec.NodeName != "" || cached.UID != info.Pod.UID {
		queue.Done(info.Pod.UID)
		if err == nil && cached.UID != info.Pod.UID {
			return true
		}
	} else {
		info.PodInfo, _ = framework.NewPodInfo(cached.DeepCopy())
		check(giveBack(q.logger, queue, info))
	}
	nominating := &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop}
	if to, ok := step["nominate"].(string); ok {
		nominating = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: to}
	}
	queue.AddNominatedPod(q.logger, info.PodInfo, nominating)
	return true
}

func setOf(value any) sets.Set[string] {
	found := sets.New[string]()
	if list, ok := value.([]any); ok {
		for _, one := range list {
			found.Insert(one.(string))
		}
	}
	return found
}

func (q *queueWorld) step(step M) M {
	result := M{}
	queue := q.sched.SchedulingQueue
	switch step["op"] {
	case "pop":
		ready := len(queue.PodsInActiveQ())
		if ready == 0 && q.pops {
			for _, p := range queue.PodsInBackoffQ() {
				info := queued(queue, p)
				if info.UnschedulablePlugins.Len()+info.PendingPlugins.Len() > 0 { // no pod that backs off after an error
					ready++
				}
			}
		}
		if ready == 0 {
			result["empty"] = true
			break
		}
		info := popped(q.logger, queue)
		q.inFlight = append(q.inFlight, info)
		result["popped"] = M{"pod": key(info.Pod), "attempts": info.Attempts}
	case "fail":
		pending := setOf(step["pending"])
		if !q.giveBack(step, setOf(step["plugins"]), pending) {
			result["absent"] = true
		}
	case "error":
		if !q.giveBack(step, sets.New[string](), sets.New[string]()) {
			result["absent"] = true
		}
	case "bind":
		i, info := q.flying(step)
		if info == nil {
			result["absent"] = true
			break
		}
		q.inFlight = append(q.inFlight[:i:i], q.inFlight[i+1:]...)
		pod := q.known[key(info.Pod)]
		if pod == nil {
			queue.Done(info.Pod.UID)
			result["absent"] = true
			break
		}
		assumed := info.Pod.DeepCopy()
		assumed.Spec.NodeName = step["to"].(string)
		check(q.cache.AssumePod(q.logger, assumed))
		queue.DeleteNominatedPodIfExists(assumed)
		queue.Done(info.Pod.UID)
		bound := pod.DeepCopy()
		bound.Spec.NodeName = step["to"].(string)
		q.known[key(bound)] = bound
		q.put(bound)
	case "activate":
		pods := map[string]*v1.Pod{}
		for k := range setOf(step["pods"]) {
			if q.known[k] != nil {
				pods[k] = q.known[k]
			}
		}
		queue.Activate(q.logger, pods)
	case "nominate":
		pod := q.known[step["namespace"].(string)+"/"+step["name"].(string)]
		if pod == nil {
			result["absent"] = true
			break
		}
		info, _ := framework.NewPodInfo(pod)
		queue.AddNominatedPod(q.logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: step["to"].(string)})
	case "advance":
		q.clock.Step(time.Duration(step["milliseconds"].(float64)) * time.Millisecond)
	case "flushBackoff":
		flushBackoff(queue.(*internalqueue.PriorityQueue), q.logger)
	case "flushUnschedulable":
		flushUnschedulable(queue.(*internalqueue.PriorityQueue), q.logger)
	case "addNode", "updateNode":
		q.put(decodeNode(step["node"]))
	case "removeNode":
		q.remove(q.nodeOf(step["name"].(string)))
	case "addPod":
		q.object(decodePod(step["pod"]))
	case "removePod":
		k := step["namespace"].(string) + "/" + step["name"].(string)
		if q.known[k] == nil {
			result["absent"] = true
			break
		}
		q.remove(q.known[k])
		delete(q.known, k)
	case "updatePod":
		pod := decodePod(step["pod"])
		old := q.known[key(pod)]
		if old == nil {
			result["absent"] = true
			break
		}
		pod.Spec.NodeName, pod.UID = old.Spec.NodeName, old.UID
		q.known[key(pod)] = pod
		q.put(pod)
	default:
		if q.world.apply(step) {
			result["absent"] = true
		}
	}
	return result
}

func keysOf(pods []*v1.Pod) []any {
	list := []string{}
	for _, p := range pods {
		list = append(list, key(p))
	}
	sort.Strings(list)
	return strs(list)
}

func (q *queueWorld) state() M {
	queue := q.sched.SchedulingQueue
	active := queue.PodsInActiveQ()
	flying := []any{}
	for _, one := range q.inFlight {
		flying = append(flying, key(one.Pod))
	}
	waiting := queue.UnschedulablePods()
	return M{"active": keysOf(active), "backoff": keysOf(queue.PodsInBackoffQ()), "unschedulable": keysOf(waiting), "inFlight": flying}
}

func runQueue(ctx context.Context, scenario M, gates M, result M) {
	q := newQueueWorld(ctx, scenario)
	q.pops = true
	if on, ok := gates["SchedulerPopFromBackoffQ"].(bool); ok {
		q.pops = on
	}
	q.namespace("default", nil)
	for _, o := range objectsOf(scenario) {
		if _, ok := o.(*v1.Namespace); !ok {
			q.clock.Step(time.Millisecond)
		}
		q.object(o)
	}
	steps := []any{}
	defer func() { result["steps"] = steps }()
	for _, s := range scenario["steps"].([]any) {
		q.clock.Step(time.Millisecond)
		step := s.(M)
		one := q.step(step)
		state := q.state()
		for k, v := range one {
			if k == "absent" {
				continue
			}
			state[k] = v
		}
		found := M{"op": step["op"], "queue": state}
		if one["absent"] != nil {
			found["absent"] = true
		}
		steps = append(steps, found)
	}
}
