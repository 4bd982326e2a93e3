// Package quotas has the commands that show, set, apply and delete quota rules.
package quotas
