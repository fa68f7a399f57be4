// One scheduling cycle over all nodes, with the results of each plugin.

package main

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func (w *world) schedule(step M, preempts bool) M {
	pod := decodePod(step["pod"])
	result := M{"op": "schedule"}
	w.namespace(pod.Namespace, nil)
	w.writes = newWrites(step)
	if w.mode == "dra" {
		w.put(pod)
		defer func() {
			if w.pods[key(pod)] == nil {
				w.remove(pod)
			}
		}()
	}
	name := pod.Spec.SchedulerName
	if name == "" {
		name = "default-scheduler"
	}
	fw := w.profiles[name]
	if fw == nil {
		fw = w.first
	}
	if w.mode == "dra" {
		if s := fw.plugins["DynamicResources"].(fwk.PreEnqueuePlugin).PreEnqueue(w.ctx, pod); !s.IsSuccess() {
			result["preEnqueue"] = M{"plugin": "DynamicResources", "code": int(s.Code()), "reasons": strs(s.Reasons())}
		}
	}
	check(w.cache.UpdateSnapshot(w.logger, w.snapshot))
	nodes, err := w.snapshot.List()
	check(err)
	order := []string{}
	for _, n := range nodes {
		order = append(order, n.Node().Name)
	}
	if w.lastOrder == nil || !slices.Equal(order, w.lastOrder) {
		result["order"] = strs(order)
		w.lastOrder = order
	}
	state := framework.NewCycleState()
	pre, status, plugins := fw.RunPreFilterPlugins(w.ctx, state, pod)
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus(), UnschedulablePlugins: plugins}
	put(result, "skippedFilter", strs(sets.List(state.GetSkipFilterPlugins())))
	rejected := M{}
	feasible := []fwk.NodeInfo{}
	fail := func() M {
		text := (&framework.FitError{Pod: pod, NumAllNodes: len(nodes), Diagnosis: diagnosis}).Error()
		result["fitError"] = text
		if w.mode == "dra" {
			_, s := fw.plugins["DynamicResources"].(fwk.PostFilterPlugin).PostFilter(w.ctx, state, pod, diagnosis.NodeToStatus)
			result["postFilter"] = M{"plugin": "DynamicResources", "code": int(s.Code()), "reasons": strs(s.Reasons())}
		}
		if preempts {
			result["preempt"] = w.preempt(step, fw, state, pod, diagnosis, order)
		}
		return result
	}
	if len(nodes) == 0 {
		panic("no nodes")
	}
	if !status.IsSuccess() {
		if !status.IsRejected() {
			result["error"] = status.AsError().Error()
			return result
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.AddPluginStatus(status)
		refused := statusOf(status, pod)
		if plugins.Len() > 0 {
			refused["plugins"] = strs(sets.List(plugins))
		}
		result["prefilter"] = refused
		return fail()
	}
	tried := nodes
	if !pre.AllNodes() {
		tried = nil
		for _, n := range nodes {
			if pre.NodeNames.Has(n.Node().Name) {
				tried = append(tried, n)
			}
		}
		result["prefilter"] = M{"plugin": "", "code": 0, "reasons": []any{}, "nodeNames": strs(sets.List(pre.NodeNames)), "plugins": strs(sets.List(plugins))}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins))))
	}
	for _, n := range tried {
		s := fw.RunFilterPluginsWithNominatedPods(w.ctx, state, pod, n)
		if s.Code() == fwk.Error {
			result["error"] = s.AsError().Error()
			put(result, "filter", rejected)
			if w.mode != "dra" {
				put(result, "feasible", names(feasible))
			}
			return result
		}
		if s.IsSuccess() {
			feasible = append(feasible, n)
			continue
		}
		diagnosis.NodeToStatus.Set(n.Node().Name, s)
		diagnosis.AddPluginStatus(s)
		rejected[n.Node().Name] = statusOf(s, pod)
	}
	put(result, "filter", rejected)
	if len(feasible) == 0 {
		return fail()
	}
	put(result, "feasible", names(feasible))
	if w.mode == "dra" {
		put(result, "allocations", allocationsOf(state, feasible))
	}
	raw, normalized, totals, message := w.scores(fw, state, pod, feasible, result)
	if message != "" {
		result["error"] = strings.TrimPrefix(message, `running Score plugins: plugin "DynamicResources" failed with: `)
		delete(result, "skippedScore")
		return result
	}
	result["scores"] = M{"raw": raw, "normalized": normalized, "total": totals}
	best := []any{}
	top := slices.Max(ints(totals))
	for i, n := range feasible {
		if totals[i].(int64) == top {
			best = append(best, n.Node().Name)
		}
	}
	result["best"] = best
	chosen := best[0].(string)
	w.static, w.dynamic, w.volumesNow = M{}, nil, nil
	result["chosen"] = chosen
	placed := pod.DeepCopy()
	placed.Spec.NodeName = chosen
	if s := fw.RunReservePluginsReserve(w.ctx, state, pod, chosen); !s.IsSuccess() {
		fw.RunReservePluginsUnreserve(w.ctx, state, pod, chosen)
		result["reserve"] = s.AsError().Error()
		return result
	}
	if w.mode == "dra" {
		if s := fw.RunPreBindPlugins(w.ctx, state, pod, chosen); !s.IsSuccess() {
			fw.RunReservePluginsUnreserve(w.ctx, state, pod, chosen)
			result["preBind"] = s.AsError().Error()
			return result
		}
	}
	if binding, ok := fw.plugins["VolumeBinding"].(fwk.PreBindPlugin); ok && len(pod.Spec.Volumes) > 0 && slices.ContainsFunc(fw.ListPlugins().PreBind.Enabled, func(p config.Plugin) bool { return p.Name == "VolumeBinding" }) {
		done, cancel := context.WithCancel(w.ctx)
		cancel()
		binding.PreBind(done, state, pod, chosen)
	}
	for _, pv := range w.volumesNow {
		pv := pv.(*v1.PersistentVolume).DeepCopy()
		pv.Status.Phase = v1.VolumeBound
		w.put(pv)
		got, _ := w.factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(pv.Spec.ClaimRef.Namespace).Get(pv.Spec.ClaimRef.Name)
		claim := got.DeepCopy()
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		claim.Spec.VolumeName = pv.Name
		claim.Status.Phase = v1.ClaimBound
		w.put(claim)
	}
	volumes := M{}
	put(volumes, "static", w.static)
	sort.Strings(w.dynamic)
	put(volumes, "dynamic", strs(w.dynamic))
	put(result, "volumes", volumes)
	w.addPod(placed)
	return result
}

func names(list []fwk.NodeInfo) []any {
	out := []any{}
	for _, n := range list {
		out = append(out, n.Node().Name)
	}
	return out
}

func ints(list []any) []int64 {
	out := []int64{}
	for _, v := range list {
		out = append(out, v.(int64))
	}
	return out
}

func (w *world) scores(fw *profile, state *framework.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo, result M) (raw, normalized M, totals []any, message string) {
	raw, normalized = M{}, M{}
	totals = make([]any, len(feasible))
	if !fw.HasScorePlugins() {
		for i := range feasible {
			totals[i] = int64(1)
		}
		return
	}
	if s := fw.RunPreScorePlugins(w.ctx, state, pod, feasible); !s.IsSuccess() {
		return nil, nil, nil, s.AsError().Error()
	}
	put(result, "skippedScore", strs(sets.List(state.GetSkipScorePlugins())))
	all, s := fw.RunScorePlugins(w.ctx, state, pod, feasible)
	if !s.IsSuccess() {
		return nil, nil, nil, s.AsError().Error()
	}
	for name, weight := range fw.weights {
		if state.GetSkipScorePlugins().Has(name) {
			continue
		}
		plugin := fw.plugins[name].(fwk.ScorePlugin)
		before, after := make([]any, len(feasible)), make([]any, len(feasible))
		for i, n := range feasible {
			value, s := plugin.Score(w.ctx, state, pod, n)
			if !s.IsSuccess() {
				panic(s.AsError())
			}
			before[i] = value
			for _, one := range all[i].Scores {
				if one.Name == name {
					after[i] = one.Score / weight
				}
			}
		}
		raw[name], normalized[name] = before, after
	}
	for i := range feasible {
		totals[i] = all[i].TotalScore
	}
	return
}
