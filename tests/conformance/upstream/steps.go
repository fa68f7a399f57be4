// Steps that change the cluster.

package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func decode(value any) runtime.Object {
	b, err := json.Marshal(value)
	check(err)
	obj, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(b, nil, nil)
	check(err)
	return obj
}

func decodePod(value any) *v1.Pod {
	m := value.(M)
	if m["kind"] == nil {
		m["kind"], m["apiVersion"] = "Pod", "v1"
	}
	pod := decode(value).(*v1.Pod)
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = "default-scheduler"
	}
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
	return pod
}

func decodeNode(value any) *v1.Node {
	m := value.(M)
	if m["kind"] == nil {
		m["kind"], m["apiVersion"] = "Node", "v1"
	}
	return decode(value).(*v1.Node)
}

func key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (w *world) put(obj runtime.Object) {
	w.version++
	meta := obj.(metav1.Object)
	meta.SetResourceVersion(strconv.Itoa(w.version))
	if meta.GetNamespace() != "" {
		w.namespace(meta.GetNamespace(), nil)
	}
	if informer := w.factory.known[reflect.TypeOf(obj)]; informer != nil {
		informer.put(obj)
	}
}

func (w *world) remove(obj runtime.Object) {
	if informer := w.factory.known[reflect.TypeOf(obj)]; informer != nil {
		informer.remove(obj)
	}
}

func (w *world) namespace(name string, labels map[string]string) {
	if labels == nil {
		if w.namespaces.Has(name) {
			return
		}
		labels = map[string]string{"kubernetes.io/metadata.name": name}
	}
	w.namespaces.Insert(name)
	w.put(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}

func (w *world) nodeOf(name string) *v1.Node {
	got, exists, _ := w.factory.known[reflect.TypeOf(&v1.Node{})].GetIndexer().GetByKey(name)
	if !exists {
		return nil
	}
	return got.(*v1.Node)
}

func (w *world) addPod(pod *v1.Pod) {
	if old := w.pods[key(pod)]; old != nil {
		w.removePod(key(pod))
	}
	w.pods[key(pod)] = pod
	w.put(pod)
	if pod.Spec.NodeName != "" {
		check(w.cache.AddPod(w.logger, pod))
	} else if pod.Status.NominatedNodeName != "" {
		info, _ := framework.NewPodInfo(pod)
		w.nominator.AddNominatedPod(w.logger, info, nil)
	}
}

func (w *world) removePod(k string) bool {
	pod := w.pods[k]
	if pod == nil {
		return false
	}
	delete(w.pods, k)
	if pod.Spec.NodeName != "" {
		check(w.cache.RemovePod(w.logger, pod))
	} else {
		w.nominator.DeleteNominatedPodIfExists(pod)
	}
	w.remove(pod)
	return true
}

func (w *world) apply(step M) bool {
	switch step["op"] {
	case "addNode":
		node := decodeNode(step["node"])
		w.put(node)
		w.cache.AddNode(w.logger, node)
	case "updateNode":
		node := decodeNode(step["node"])
		old := w.nodeOf(node.Name)
		w.put(node)
		w.cache.UpdateNode(w.logger, old, node)
	case "removeNode":
		node := w.nodeOf(step["name"].(string))
		w.remove(node)
		check(w.cache.RemoveNode(w.logger, node))
	case "addPod":
		w.addPod(decodePod(step["pod"]))
	case "removePod":
		return !w.removePod(step["namespace"].(string) + "/" + step["name"].(string))
	case "updatePod":
		pod := decodePod(step["pod"])
		old := w.pods[key(pod)]
		if old == nil {
			return true
		}
		pod.Spec.NodeName = old.Spec.NodeName
		pod.UID = old.UID
		w.pods[key(pod)] = pod
		w.put(pod)
		if pod.Spec.NodeName != "" {
			check(w.cache.UpdatePod(w.logger, old, pod))
		} else {
			info, _ := framework.NewPodInfo(pod)
			w.nominator.UpdateNominatedPod(w.logger, old, info)
		}
	case "addObject", "updateObject":
		w.object(decode(step["object"]))
	case "removeObject":
		w.remove(decode(step["object"]))
	case "updateNamespace":
		labels := map[string]string{}
		if given, ok := step["labels"].(M); ok {
			for k, v := range given {
				labels[k] = v.(string)
			}
		}
		w.namespace(step["namespace"].(string), labels)
	case "releaseClaims":
		w.releaseClaims(step["namespace"].(string), step["name"].(string))
	case "deleteClaim":
		c := w.claim(step["namespace"].(string) + "/" + step["name"].(string))
		if c == nil {
			return true
		}
		w.deleteClaim(c)
	case "reportDevices":
		return !w.reportDevices(w.claim(step["namespace"].(string)+"/"+step["name"].(string)), conditionsOf(step))
	default:
		panic(fmt.Sprint("unknown step ", step["op"]))
	}
	return false
}

func (w *world) object(obj runtime.Object) {
	switch o := obj.(type) {
	case *v1.Namespace:
		labels := o.Labels
		if labels == nil {
			labels = map[string]string{}
		}
		w.namespace(o.Name, labels)
	case *v1.Node:
		w.put(o)
		w.cache.AddNode(w.logger, o)
	case *v1.Pod:
		if o.UID == "" {
			o.UID = types.UID(key(o))
		}
		w.addPod(o)
	case *resourceapi.ResourceClaim:
		if o.UID == "" {
			o.UID = types.UID("claim/" + o.Namespace + "/" + o.Name)
		}
		w.put(o)
	default:
		w.put(obj)
	}
}
