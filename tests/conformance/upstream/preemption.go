// The dry run of preemption over all nodes.

package main

import (
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

func (w *world) preempt(step M, fw *profile, state *framework.CycleState, pod *v1.Pod, diagnosis framework.Diagnosis, order []string) M {
	result := M{"eligible": false, "potential": []any{}, "candidates": M{}, "rejected": M{}}
	plugin, ok := fw.plugins["DefaultPreemption"].(*defaultpreemption.DefaultPreemption)
	if !ok {
		panic("no preemption")
	}
	state.SetSkipAllPostFilterPlugins(false)
	var own *fwk.Status
	if pod.Status.NominatedNodeName != "" {
		own = diagnosis.NodeToStatus.Get(pod.Status.NominatedNodeName)
	}
	eligible, message := plugin.PodEligibleToPreemptOthers(w.ctx, pod, own)
	result["eligible"] = eligible
	put(result, "message", message)
	var candidates []interface{}
	if eligible {
		found, _ := diagnosis.NodeToStatus.NodesForStatusCode(w.snapshot.NodeInfos(), fwk.Unschedulable)
		at := map[string]fwk.NodeInfo{}
		for _, n := range found {
			at[n.Node().Name] = n
		}
		potential := []fwk.NodeInfo{}
		for _, n := range order {
			if at[n] != nil {
				potential = append(potential, at[n])
			}
		}
		result["potential"] = names(potential)
		if len(potential) > 0 {
			pdbs, _ := w.factory.Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
			sort.Slice(pdbs, func(i, j int) bool { return key2(pdbs[i]) < key2(pdbs[j]) })
			list, statuses, err := plugin.Evaluator.DryRunPreemption(w.ctx, state, pod, potential, pdbs, 0, int32(len(potential)))
			check(err)
			byName := M{}
			victimsOf := map[string][]*v1.Pod{}
			for _, c := range list {
				victims := []any{}
				for _, v := range c.Victims().Pods {
					victims = append(victims, key(v))
				}
				victimsOf[c.Name()] = c.Victims().Pods
				byName[c.Name()] = M{"victims": victims, "pdbViolations": c.Victims().NumPDBViolations}
				candidates = append(candidates, c)
			}
			result["candidates"] = byName
			no := M{}
			statuses.ForEachExplicitNode(func(n string, s *fwk.Status) { no[n] = statusOf(s, pod) })
			result["rejected"] = no
			if len(list) > 0 {
				seen := sets.New[string]()
				for range 40*len(list) + 64 {
					shuffled := slices.Clone(list)
					seen.Insert(plugin.Evaluator.SelectCandidate(w.ctx, shuffled).Name())
				}
				tied := []any{}
				chosen := ""
				for _, n := range order {
					if seen.Has(n) {
						tied = append(tied, n)
						if chosen == "" {
							chosen = n
						}
					}
				}
				result["tied"] = tied
				result["chosen"] = chosen
				if len(tied) == 1 {
					result["upstream"] = chosen
				}
				if apply, given := step["apply"].(bool); !given || apply {
					for _, v := range victimsOf[chosen] {
						w.removePod(key(v))
					}
					placed := pod.DeepCopy()
					placed.Spec.NodeName = chosen
					w.addPod(placed)
				}
			}
		}
	}
	if len(candidates) == 0 {
		w.put(pod)
		defer w.remove(pod)
		_, s := fw.RunPostFilterPlugins(w.ctx, state, pod, diagnosis.NodeToStatus)
		result["postFilter"] = s.Message()
		d := diagnosis
		d.PostFilterMsg = s.Message()
		result["fitError"] = (&framework.FitError{Pod: pod, NumAllNodes: len(order), Diagnosis: d}).Error()
	}
	return result
}

func key2(p *policyv1.PodDisruptionBudget) string { return p.Namespace + "/" + p.Name }
