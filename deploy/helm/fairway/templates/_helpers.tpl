{{- define "fairway.name" -}}
{{- if contains "fairway" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-fairway{{ end -}}
{{- end -}}

{{- define "fairway.selector" -}}
app.kubernetes.io/name: fairway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairway.meta" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "fairway.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{/* The sections of the configuration that belong to the chart. They are read at the start only. */}}
{{- define "fairway.process" -}}
version: 1
listen:
  dns: ["[::]:53"]
  health:
    address: "[::]:8054"
    {{- with .Values.metrics }}
    {{- if .enabled }}
    metrics: true
    networks: {{ toJson .networks }}
    {{- end }}
    {{- end }}
{{- end -}}
