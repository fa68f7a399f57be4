from moorage.kube.model.pod import PodSpec

RESTART_ALL: str
USERS_IN_HOST_NETWORK: str

def required_features(spec: PodSpec) -> tuple[str, ...]: ...
