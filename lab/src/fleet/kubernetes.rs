//! Kubernetes: an indexed Job, one pod per part, a Job that merges, and the volume that they share.

use super::Plan;
use crate::{kernel::REGISTRY_VARIABLE, yaml};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The name of the objects.
const NAME: &str = "ftrace-lab";

/// The directory in which the program of an image works, with `parts` and `report`.
const WORK: &str = "/work";

/// Memory per CPU: two guests, their page caches, and the lab.
const MEMORY_PER_CPU_GIB: usize = 2;

pub(super) fn text(plan: &Plan) -> Result<String> {
    ensure!(!plan.jobs.is_empty(), "there is nothing to run");
    let image = plan.image.as_deref().context("Kubernetes needs the lab's image; name it by --image")?;
    let header = format!(
        "# A fleet as an indexed Job, by `lab matrix --engine kubernetes`. With FILE for this file:\n\
         #\n\
         #   kubectl apply -f FILE\n\
         #   kubectl get --watch job/{NAME}    # until it is complete, or failed for a part that cannot run\n\
         #   kubectl patch job/{NAME}-merge --type=merge --patch '{{\"spec\":{{\"suspend\":false}}}}'\n\
         #   kubectl logs --follow job/{NAME}-merge\n\
         #\n\
         # The report is in `report` of the volume. A pod whose machine was lost is started again; to run one part\n\
         # again later, run the command that the merge prints in a pod with that volume.\n"
    );
    let documents = [claim(), parts(plan, image), merge(plan, image)];
    let documents = documents.iter().map(|document| Ok(format!("---\n{}", yaml::to_string(document)?)));
    Ok(header + &documents.collect::<Result<String>>()?)
}

fn claim() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": NAME },
        // All machines write to it at once.
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "20Gi" } } },
    })
}

fn parts(plan: &Plan, image: &str) -> Value {
    let script = format!(
        "case $JOB_COMPLETION_INDEX in\n{}esac\n\
         # Scenarios that failed are results, and not run again.\n\
         ftrace-lab run \"$@\" || [ $? -eq 1 ]\n",
        super::cases(plan)
    );
    let count = plan.jobs.len();
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": NAME },
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            // A part that cannot run does not keep the others from running.
            "backoffLimitPerIndex": 2,
            "template": { "spec": pod(plan, image, &script) },
        },
    })
}

fn merge(plan: &Plan, image: &str) -> Value {
    let script = format!("ftrace-lab merge parts --into report {}\n", plan.merge_arguments());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": format!("{NAME}-merge") },
        "spec": { "suspend": true, "backoffLimit": 0, "template": { "spec": pod(plan, image, &script) } },
    })
}

fn pod(plan: &Plan, image: &str, script: &str) -> Value {
    let resources = json!({
        "cpu": plan.cpus.to_string(),
        "memory": format!("{}Gi", MEMORY_PER_CPU_GIB * plan.cpus),
    });
    let registry =
        plan.registry.iter().map(|registry| json!({ "name": REGISTRY_VARIABLE, "value": registry }));
    json!({
        "restartPolicy": "Never",
        // The lab talks to no API.
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "lab",
            "image": image,
            // Kubernetes would take $(NAME) for a variable of its own.
            "command": ["/bin/sh", "-euc", script.replace("$(", "$$(")],
            "workingDir": WORK,
            "env": registry.collect::<Vec<_>>(),
            // As many as the parts were planned for.
            "resources": { "requests": resources, "limits": resources },
            "volumeMounts": [
                { "name": "work", "mountPath": WORK },
                { "name": "cache", "mountPath": "/root/.cache/ftrace-lab" },
            ],
        }],
        "volumes": [
            { "name": "work", "persistentVolumeClaim": { "claimName": NAME } },
            { "name": "cache", "emptyDir": {} },
        ],
    })
}
