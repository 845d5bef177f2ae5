{{- define "monitor.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "monitor.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Labels of the release's pods: (list $ "component"), or (list $ "") for all components. */}}
{{- define "monitor.labels" -}}
{{- $component := index . 1 -}}
app.kubernetes.io/name: rebalance-monitor
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- if $component }}
app.kubernetes.io/component: {{ $component }}
{{- end }}
{{- end -}}

{{- define "monitor.annotations" -}}
{{- if not .Values.existingConfigMap -}}
checksum/config: {{ include "monitor.toml" . | sha256sum }}
{{ end }}
{{- with .Values.podAnnotations -}}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A section of settings, or a list of sections such as [[notify]]. JSON's scalars and lists are TOML's too. */}}
{{- define "monitor.toml" -}}
{{- range $section, $settings := .Values.settings -}}
{{- $several := kindIs "slice" $settings -}}
{{- range $one := ternary $settings (list $settings) $several -}}
{{ ternary "[[" "[" $several }}{{ $section }}{{ ternary "]]" "]" $several }}
{{ range $name, $value := $one -}}
{{ $name }} = {{ toJson $value }}
{{ end }}
{{ end -}}
{{- end -}}
{{- end -}}

{{- define "monitor.configMap" -}}
{{- default (include "monitor.name" .) .Values.existingConfigMap -}}
{{- end -}}

{{- define "monitor.pod" -}}
automountServiceAccountToken: false
{{ include "monitor.podSecurity" . }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "monitor.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "monitor.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Image and environment of every container. */}}
{{- define "monitor.container" -}}
image: {{ include "monitor.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{ include "monitor.env" . }}
{{ include "monitor.security" . }}
{{- end -}}

{{- define "monitor.env" -}}
envFrom:
  - secretRef: {name: {{ .Values.existingSecret }}, optional: true}
{{- with .Values.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "monitor.mounts" -}}
- {name: config, mountPath: /etc/rebalance-monitor, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "monitor.volumes" -}}
- name: config
  configMap: {name: {{ include "monitor.configMap" . }}}
- name: tmp
  emptyDir: {}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Strimzi's operator creates the topics itself. */}}
{{- define "monitor.topics" -}}
{{- if and .Values.topics.create (not .Values.strimzi.enabled) -}}
initContainers:
  - name: topics
    {{- include "monitor.container" . | nindent 4 }}
    args: [topics, --create, --config=/etc/rebalance-monitor/monitor.toml]
    resources:
      {{- toYaml .Values.topics.resources | nindent 6 }}
    volumeMounts:
      {{- include "monitor.mounts" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{- define "monitor.probes" -}}
startupProbe:
  httpGet: {path: /metrics, port: metrics}
  failureThreshold: 60
  periodSeconds: 2
livenessProbe:
  httpGet: {path: /metrics, port: metrics}
  periodSeconds: 20
  timeoutSeconds: 5
{{- end -}}

{{/* (list $ "component" "claim" $settings "access mode") */}}
{{- define "monitor.claim" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 3 -}}
{{- if not $settings.existingClaim -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ include "monitor.name" $root }}-{{ index . 2 }}
  labels:
    {{- include "monitor.labels" (list $root (index . 1)) | nindent 4 }}
spec:
  accessModes: [{{ index . 4 }}]
  {{- with $settings.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests: {storage: {{ $settings.size }}}
{{- end -}}
{{- end -}}

{{- define "monitor.checkpointClaim" -}}
{{- default (printf "%s-checkpoint" (include "monitor.name" .)) .Values.stream.checkpoint.existingClaim -}}
{{- end -}}

{{- define "monitor.streamArguments" -}}
- stream
- --config=/etc/rebalance-monitor/monitor.toml
- --checkpoint=/data/checkpoint
{{- if eq .Values.stream.kind "local" }}
- --master={{ .Values.stream.master }}
{{- end }}
- --log-format=json
- --metrics-host=0.0.0.0
- --metrics-port=9464
{{- with .Values.stream.args }}
{{ toYaml . }}
{{- end }}
{{- end -}}
